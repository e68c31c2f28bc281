"""Threads that record at once in every way there is, and rows that can be checked by themselves."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import cycle
from typing import Any

from both_cores import BuiltCore

from timing_logger import TimingLogger
from timing_logger.recording.cores.protocols import NeverWaitedFor

THREADS = 8
EACH = 1_000_000
"""A message of thread t, round i, has ``t * EACH + i`` bytes: all else in its row follows from that."""

NAMES = 40
FIRST_ITERATION, FIRST_EPOCH = 5000, 10_000


class OddNumber(int):
    """A number that no slot of a ring can hold, as one of NumPy."""


class Group:
    """The group of one thread."""

    size = THREADS

    def __init__(self, core: BuiltCore, thread: int) -> None:
        self.name = f"group{thread}"
        self._count = core.classes.CollectiveCount()
        self.next_collective, self.take_back = self._count.next_collective, self._count.take_back


class Worker:
    """One of the threads."""

    def __init__(self, core: BuiltCore, logger: TimingLogger, thread: int, begun: deque[Any]) -> None:
        self.logger: Any = logger
        self.thread, self.begun = thread, begun
        self.group = Group(core, thread)
        self.n_records = 0
        self.ways: tuple[Callable[[int], int], ...] = (
            self.block, self.nested, self.labelled, self.timing, self.odd, self.call, self.operation,
            self.state,
        )  # fmt: skip

    def run(self, rounds: int) -> None:
        for i, way in zip(range(rounds * len(self.ways)), cycle(self.ways), strict=False):
            self.n_records += way(self.thread * EACH + i)
            self.end_one()
        if self.thread == 0:
            gc.collect()

    def columns(self, size: int) -> dict[str, Any]:
        group = {"group": self.group.name, "group_size": THREADS, "peer": self.thread, "seq": size % EACH}
        return {"message_size": size, "layer_name": self.layer(size), "phase": f"phase{self.thread}", **group}

    def layer(self, size: int) -> str:
        return f"layer{self.thread}.{size % NAMES}"

    def block(self, size: int) -> int:
        with self.logger.record_mpi_operation("BLOCK", **self.columns(size)) as timer:
            timer.work = float(size)
        return 1

    def nested(self, size: int) -> int:
        with self.logger.record_mpi_operation("OUTER", **self.columns(size)):
            return self.block(size) + 1

    def labelled(self, size: int) -> int:
        columns = self.columns(size)
        with self.logger.label(columns.pop("layer_name"), columns.pop("phase")):
            with self.logger.record_mpi_operation("LABELLED", **columns):
                pass
            return 1

    def timing(self, size: int) -> int:
        self.logger.record_timing("TIMING", 1.0, **self.columns(size))
        self.logger.record_interval("INTERVAL", 10**9, 2 * 10**9, **self.columns(size))
        return 2

    def odd(self, size: int) -> int:
        self.logger.record_timing("ODD", 1.0, **self.columns(size) | {"seq": OddNumber(size % EACH)})
        return 1

    def call(self, size: int) -> int:
        with self.logger.label("", f"phase{self.thread}"):
            self.logger.time_call(
                "CALL", size, self.layer(size), self.thread, self.group, NeverWaitedFor, abs, (size,)
            )
        return 1

    def operation(self, size: int) -> int:
        """Begin an operation whose end two threads tell, and whose thread is blocked until then."""
        with self.logger.label(self.layer(size), f"phase{self.thread}"):
            now_ns = time.perf_counter_ns()
            operation = self.logger.begin_background(
                "OPERATION", size, self.thread, self.group, size % EACH, learn_the_same, now_ns
            )
        self.begun.extend((operation, operation))
        operation.block_from(time.perf_counter_ns(), None)
        return 2

    def end_one(self) -> None:
        try:
            operation = self.begun.popleft()
        except IndexError:
            return
        learn_the_same(operation, None)
        operation.end(None)

    def state(self, size: int) -> int:
        """Set what others record by. It is of no block of this thread."""
        self.logger.set_current_iteration(FIRST_ITERATION + size)
        self.logger.set_current_epoch(FIRST_EPOCH + size)
        self.logger.set_current_work(float(size))
        return 0


def learn_the_same(operation: Any, _: object) -> str:
    """Set columns to what they are, as other objects: as whoever sees the end of an operation may."""
    size = operation.message_size_bytes
    operation.message_size_bytes = size + 0
    operation.seq = size % EACH
    return "ok"


def assert_whole(row: dict[str, Any]) -> None:
    """Check that all that a row says is of one call; its values may be texts."""
    size, peer = int(row["message_size_bytes"]), int(row["peer"])
    thread, number = divmod(size, EACH)
    assert (peer, row["group"], row["phase"]) == (thread, f"group{thread}", f"phase{thread}"), row
    assert (row["layer_name"], row["thread"]) == (f"layer{thread}.{size % NAMES}", f"worker{thread}"), row
    if row["operation"] != "CALL":
        assert int(row["seq"]) == number, row
    assert int(row["group_size"]) == THREADS, row
    for column, first in (("iteration", FIRST_ITERATION), ("epoch", FIRST_EPOCH)):
        assert divmod(int(row[column]) - first, EACH)[0] in range(THREADS), row
    assert row["work"] in ("", None) or divmod(float(row["work"]), EACH)[0] in range(THREADS), row


class Watcher:
    """Looks at the open calls again and again, as the flush thread does, and whoever closes the logger."""

    def __init__(self, logger: Any) -> None:
        self.logger, self.is_over = logger, False
        self.n_seen = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        from timing_logger.schema.record import Record

        while not self.is_over:
            try:
                for call in self.logger._open_calls:
                    for record in call.open_records("inflight"):
                        self.n_seen += 1
                        assert_whole(Record._make(record)._asdict())
            except BaseException as error:
                self.failure = error
                return


def run_all(targets: Iterable[tuple[str, Callable[[], object]]]) -> list[threading.Thread]:
    """Run each in a thread of this name, all at once, and return these when they have ended."""
    begin = threading.Barrier(len(targets := list(targets)))

    def run(target: Callable[[], object]) -> None:
        begin.wait()
        target()

    threads = [threading.Thread(target=run, args=(target,), name=name) for name, target in targets]
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval_s)
    return threads
