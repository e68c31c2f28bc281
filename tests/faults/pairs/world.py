"""The process that faults strike: its logger, and what it notes in memory that it shares with its judge."""

from __future__ import annotations

import itertools
import mmap
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

from pairs.notes import HEADER, MOST, PER_GENERATION, RECORDERS, STARTED, STATS, STATS_ARE_THERE, STRUCK

CHILD = "CHILD"
"""The operation of what children record: no file of the parent may have it."""
FLUSH_INTERVAL_S = 0.05
EXIT_CODE = 7
SAID = "PAIRS: "
"""How a line begins by which a process under test tells its judge of a fault."""
CHILD_LIMIT_S = 10.0


EXIT_WAYS = {"sys.exit": EXIT_CODE, "an exception": 1, "os._exit": EXIT_CODE, "SIGTERM": -signal.SIGTERM}
"""How the interpreter is left, with the status that this gives the process."""


def exit_way(chance: random.Random) -> str:
    """Draw a way to leave the interpreter: the first that a try draws."""
    return chance.choice(sorted(EXIT_WAYS))


class World:
    """The process under test.

    Each record has an operation, which says who recorded it, and a number. See :mod:`pairs.notes` for what is
    noted of it.

    Args:
        folder: for all files of this try.
        chance: what is random in it.
        generation: how often the process has replaced its program before.
        to_judge: the descriptor of a pipe to the judge.

    Attributes:
        exit_way: how the interpreter is left, if that is a fault of this try; the judge draws the same.
        logger: the logger under test; set later.
        ending: whether the logger or the process has begun to end, so that a record may come too late.
        is_stalled: whether the disk does not answer.
        strikes_at_exit: whether a hook of the exit makes the second fault.
        is_over: whether all was noted, and nothing more is recorded.
        stop: ends the threads that record.
        kept: whatever must live on.
    """

    def __init__(self, folder: Path, chance: random.Random, generation: int, to_judge: int) -> None:
        self.folder, self.chance, self.generation, self.to_judge = folder, chance, generation, to_judge
        self.exit_way = exit_way(chance)
        self.pid = os.getpid()
        with open(folder / "notes", "r+b") as file:
            notes = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
        self._notes = notes[generation * PER_GENERATION : (generation + 1) * PER_GENERATION]
        self._numbers = [itertools.count() for _ in RECORDERS]
        self.logger: Any = None
        self.ending = False
        self.is_stalled = self.strikes_at_exit = self.is_over = False
        self.stop = threading.Event()
        self.kept: list[object] = []

    @property
    def is_child(self) -> bool:
        """Whether this is a forked child of the process under test."""
        return os.getpid() != self.pid

    def record(self, who: str, way: str = "timing") -> None:
        """Record once, as ``who``; in a child, as a child."""
        if self.is_child:
            self.logger.record_timing(CHILD, 1.0)
            return
        if self.is_over:
            return
        recorder = RECORDERS.index(who)
        number = next(self._numbers[recorder])
        if number >= MOST:
            return
        operation, at = f"{who}{self.generation}", HEADER + recorder * MOST + number
        self._notes[at] = STARTED
        if way == "timing":
            self.logger.record_timing(operation, 1.0, "layer", 1024, "phase", number, 0)
        elif way == "span":
            with self.logger.record_mpi_operation(operation, 1024, iteration=number, group="g", seq=number):
                pass
        else:  # which no slot of a ring can hold
            self.logger.record_interval(operation, 1, 2, iteration=number, metadata={"a": 1})
        now_ns = time.perf_counter_ns()
        self._notes[at] = -now_ns if self.ending else now_ns

    def start_recording(self, who: str, way: str) -> threading.Thread:
        """Start a thread that records until the end, and wait until it has begun."""
        begun = threading.Event()

        def record() -> None:
            for number in itertools.count(1):
                if self.stop.is_set():
                    return
                self.record(who, "no slot" if number % 97 == 0 else way)
                if number == 20:
                    begun.set()
                if number % 5 == 0:
                    time.sleep(0.0002)

        thread = threading.Thread(target=record, name=who, daemon=True)
        thread.start()
        begun.wait()
        return thread

    def pause(self, most_ms: float) -> None:
        """Wait for a random time."""
        time.sleep(self.chance.uniform(0, most_ms) / 1e3)

    def ask_to_be_killed(self) -> None:
        """Have the judge kill this process: at any instant, which this process itself could not hit."""
        os.write(self.to_judge, b"kill\n")

    def await_child(self, pid: int) -> None:
        """Wait for a child; tell the judge if it hangs, or ends otherwise than well."""
        until_s = time.monotonic() + CHILD_LIMIT_S
        while time.monotonic() < until_s:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                if status:
                    self.tell(f"a child ended with status {status}")
                return
            time.sleep(0.0005)
        self.tell("a child hung")
        os.kill(pid, signal.SIGUSR2)  # has faulthandler write its stack
        time.sleep(0.2)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def tell(self, what: str) -> None:
        """Tell the judge of a fault."""
        os.write(2, f"{SAID}{what}\n".encode())

    def note_strike(self, which: int) -> None:
        """Note that the first (0) or second (1) fault has begun."""
        self._notes[STRUCK + which] = 1

    def note_stats(self) -> None:
        """Note the logger's own figures, at the very end of a healthy run."""
        self.is_over = True
        for i, value in enumerate(self.logger.stats):
            self._notes[STATS + i] = value
        self._notes[STATS_ARE_THERE] = 1
