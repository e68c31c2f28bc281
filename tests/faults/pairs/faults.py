"""The table of faults: adding one is adding an entry to ``FAULTS``.

A fault is a function of the :class:`~pairs.world.World` that it strikes. One that lasts is a generator, which
yields while it goes on.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from pairs.world import CHILD, EXIT_CODE, World

_SWITCH_S = sys.getswitchinterval()
_forking, _removing = threading.Lock(), threading.Lock()

# -- children -----------------------------------------------------------------------------------


def _record_as_child(world: World) -> None:
    for _ in range(10):
        world.logger.record_timing(CHILD, 1.0)
        with world.logger.record_mpi_operation(CHILD):
            pass


def fork_by_python(world: World) -> None:
    """Fork; the child records, collects garbage, flushes and closes, and may outlive its parent."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            _record_as_child(world)
            gc.collect()
            world.logger.flush(1.0)
            world.logger.close()
            world.pause(world.chance.choice((0, 200)))
            status = 0
        finally:
            os._exit(status)
    world.await_child(pid)


def fork_in_c(world: World) -> None:
    """Fork as a library in C does, so that no hook of Python runs; the child records, and goes on.

    The interpreter's lock is never given away in the child, nor asked for by other threads at the fork:
    without its hooks, Python itself would wait for ever for one of the threads that are not there.
    """
    libc = ctypes.PyDLL(None)
    with _forking:  # another thread that does the same would set the interval back
        sys.setswitchinterval(100)
        time.sleep(2 * _SWITCH_S)
        pid = libc.fork()
        if pid == 0:
            _record_as_child(world)
            libc.usleep(world.chance.choice((0, 200_000)))
            os._exit(0)
        sys.setswitchinterval(_SWITCH_S)
    world.await_child(pid)


_SUB_PROCESSES: Mapping[str, Callable[[World], object]] = {
    "run": lambda world: subprocess.run(["true"], check=True),
    "preexec_fn": lambda world: subprocess.run(
        ["true"], check=True, preexec_fn=lambda: world.logger.record_timing(CHILD, 1.0)
    ),
    "posix_spawn": lambda world: world.await_child(os.posix_spawn("/bin/true", ["true"], os.environ)),
    "system": lambda world: os.system("true"),
    "outlives its parent": lambda world: world.kept.append(subprocess.Popen(["sleep", "0.3"])),
}


def sub_process(world: World) -> None:
    _SUB_PROCESSES[world.chance.choice(sorted(_SUB_PROCESSES))](world)


# -- records at odd places ----------------------------------------------------------------------


class _Cycle:
    """Garbage that only the collector finds, and that records then."""

    def __init__(self, world: World) -> None:
        self.me, self.world = self, world

    def __del__(self) -> None:
        self.world.record("DEL")


def finalizer(world: World) -> Iterator[None]:
    """Have the collector run at nearly any allocation, in this process and in its children."""
    before = gc.get_threshold()
    gc.set_threshold(5)
    for _ in range(20):
        _Cycle(world)
    yield
    for _ in range(20):
        _Cycle(world)
    gc.set_threshold(*before)


def signal_handler(world: World) -> Iterator[None]:
    """Send signals, whose handler runs in the main thread wherever that is; see :func:`handle`."""
    for number in range(20):
        os.kill(world.pid, signal.SIGURG)
        world.pause(0.3)
        if number == 10:
            yield


def handle(world: World) -> None:
    """Handle SIGURG, which by default is ignored: it does no harm to a program that comes by exec."""
    world.record("SIGNAL")
    world.record("SIGNAL", "span")
    if not world.is_child and world.chance.random() < 0.1:
        world.logger.flush(0.05)
        _ = world.logger.stats


def thread_exit(world: World) -> None:
    """Start threads that record and end, at last by the finalizer of a value of their own."""
    local = threading.local()

    def record() -> None:
        local.cycle = _Cycle(world)
        local.cycle.me = None
        for _ in range(20):
            world.record("THREAD", "span")

    threads = [threading.Thread(target=record) for _ in range(5)]
    try:
        for thread in threads:
            thread.start()
            thread.join()
    except RuntimeError:  # the interpreter is shutting down
        return


# -- the logger and its file --------------------------------------------------------------------


def close(world: World) -> None:
    world.ending = True
    world.logger.close()


def full_queue(world: World) -> None:
    """Record faster than anything is written, into a small queue."""
    for _ in range(1000):
        world.record("BURST")


def stalled_disk(world: World) -> Iterator[None]:
    """Have the next write of the flush thread wait, as on a disk that does not answer."""
    world.is_stalled = True
    world.pause(20)
    yield
    world.is_stalled = False


def unlinked(world: World) -> None:
    """Remove the timing file. A second name keeps what it held, for the judge."""
    file = getattr(world.logger, "path", None)
    with _removing:  # each file has one second name, though two threads do this
        for path in file.parent.glob(f"{file.stem}*.csv") if isinstance(file, Path) else ():
            os.link(path, world.folder / "unlinked" / f"{time.perf_counter_ns()}-{path.name}")
            path.unlink()


def interrupted_flush(world: World) -> None:
    """Press Ctrl-C while the main thread waits in ``flush``."""

    def interrupt(after_s: float = world.chance.uniform(0, 0.003)) -> None:
        time.sleep(after_s)
        os.kill(world.pid, signal.SIGINT)

    try:
        threading.Thread(target=interrupt, daemon=True).start()
        until_s = time.monotonic() + 1
        while time.monotonic() < until_s:
            world.logger.flush(0.02)
    except KeyboardInterrupt:
        return
    except RuntimeError:  # no thread can start any more
        return


# -- ends ---------------------------------------------------------------------------------------


def sigkill(world: World) -> None:
    world.ask_to_be_killed()
    time.sleep(10)


def interpreter_exit(world: World) -> None:
    """Leave the interpreter in the way that was drawn for this try."""
    world.ending = True
    if world.exit_way == "sys.exit":
        sys.exit(EXIT_CODE)
    if world.exit_way == "an exception":
        raise ValueError("the program fails")
    if world.exit_way == "os._exit":
        os._exit(EXIT_CODE)
    os.kill(world.pid, signal.SIGTERM)
    time.sleep(10)


def exec_(world: World) -> None:
    """Replace the program: by itself, which records again and is struck again; then by another."""
    again = [sys.executable, "-m", "pairs.program", *sys.argv[1:]]
    again[again.index("--generation") + 1] = "1"
    other = ["/bin/sh", "-c", f"exit {EXIT_CODE}"]
    command = other if world.generation else again
    os.execv(command[0], command)


class Fault(NamedTuple):
    """A fault.

    Attributes:
        run: makes it.
        options: what the logger must be made with.
        on_main: whether only the main thread can make it.
        ends: whether the process ends by it.
    """

    run: Callable[[World], Iterator[None] | None]
    options: Mapping[str, object] = MappingProxyType({})
    on_main: bool = False
    ends: bool = False


FAULTS = {
    "fork by Python": Fault(fork_by_python),
    "fork in C": Fault(fork_in_c),
    "finalizer": Fault(finalizer),
    "signal handler": Fault(signal_handler),
    "thread exit": Fault(thread_exit),
    "close": Fault(close),
    "full queue": Fault(full_queue, {"maxsize": 300}),
    "stalled disk": Fault(stalled_disk),
    "unlinked file": Fault(unlinked),
    "interrupted flush": Fault(interrupted_flush, on_main=True),
    "SIGKILL": Fault(sigkill, ends=True),
    "interpreter exit": Fault(interpreter_exit, on_main=True, ends=True),
    "sub-process": Fault(sub_process),
    "exec": Fault(exec_, ends=True),
}

CANNOT_FOLLOW = {"SIGKILL": "nothing of the process is left in which another fault could strike"}
"""The faults that no other can strike during or after, and why not."""
