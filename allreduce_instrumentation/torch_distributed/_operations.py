"""Operations under way: started when they are issued, and written as rows when their end is seen.

There is one interface for two clocks. Work that host threads do (gloo) is timed on the host's clock, and
ends when the backend's thread says so. Work that is queued in a device's stream (NCCL) is timed between
two events there.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Protocol, TypeVar
from weakref import WeakSet, ref

import torch
import torch.distributed as dist

from timing_logger.recording.cores.channel import Channel
from timing_logger.recording.cores.chosen import BackgroundSpan, Span
from timing_logger.recording.cores.protocols import Timer
from timing_logger.recording.device.intervals import DeviceInterval, open_interval
from timing_logger.recording.device.span import DeviceSpan, stream_elsewhere
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import UNRESOLVED, WAIT

_SETTLE_S = 0.5


Callback = Callable[["torch.futures.Future[object]"], None]

_under_way: set[ref[Any]] = set()


def call_when_done(future: torch.futures.Future[object], callback: Callback) -> None:
    """Have ``callback`` called by the thread that completes ``future``; at once, if it is complete.

    Args:
        future: the future to wait for.
        callback: a bound method to which there is no other reference.
    """
    _under_way.add(ref(callback, _under_way.discard))  # discard is C: no other thread gets in between
    future.add_done_callback(callback)


def let_end(which: Callable[[object], bool], others: Callable[[], Collection[object]] = tuple) -> None:
    """Wait until the callbacks of some operations are over, for 0.5 seconds at most.

    An operation's callback may come a moment after the operation has completed.

    Args:
        which: tells for an operation whether to wait for its callback.
        others: returns further operations to wait for, whose callbacks are not known here.
    """
    deadline = time.monotonic() + _SETTLE_S
    while (any(map(which, _owners())) or others()) and time.monotonic() < deadline:
        time.sleep(0.001)  # the backend's threads run meanwhile


def _owners() -> list[object]:
    """Return the objects whose callbacks are under way."""
    # The list of callbacks must not outlive this call: the thread that called back has to release them.
    callbacks = [each() for each in list(_under_way)]
    return [callback.__self__ for callback in callbacks if callback is not None]


def _await_all() -> None:
    """Wait at exit until all callbacks are over; it takes no longer than torch's own wait for operations."""
    while _under_way:
        time.sleep(0.001)
    let_rest()


atexit.register(_await_all)  # here, at import, so that it runs after the hooks that come later
os.register_at_fork(after_in_child=_under_way.clear)  # no thread of the child calls back


# -- waits until gloo's threads are idle before the interpreter shuts down -------------------------------
# The thread that ran an operation still has work to do when those who waited for the operation go on: it
# releases the tensors, and torch takes the interpreter's lock for each. A thread that asks for the lock
# during shutdown is ended, and the process is aborted. This happens with torch alone, too; but timing,
# whose callbacks come in between, must not make it more frequent.


_TASKS = Path("/proc/self/task")  # Linux only; elsewhere the state of gloo's threads is unknown
_NAME = "pt_gloo"  # torch's prefix of the names of the threads that run operations
_LIMIT_S = 2.0  # a thread that takes longer still runs an operation


def let_rest() -> None:
    """Wait, for 2 seconds at most, until all of gloo's threads are idle."""
    deadline = time.monotonic() + _LIMIT_S
    before = None
    while (now := _threads()) and time.monotonic() < deadline:
        # Asleep twice without waking in between: then it does not just wait for a mutex of another thread.
        if now == before and all(state.startswith("S") for state, _ in now.values()):
            return
        before = now
        time.sleep(0.001)


def _threads() -> dict[str, tuple[str, str]]:
    """Return each thread's state and how often it has fallen asleep, by thread id; empty if unknown.

    Reading the files releases the interpreter's lock, so a thread that waits for the lock wakes up.
    """
    found = {}
    for task in _TASKS.glob("*"):
        try:
            text = (task / "status").read_text("utf-8", "replace")
        except OSError:  # ended meanwhile
            continue
        fields = dict(line.partition(":\t")[::2] for line in text.splitlines())
        if fields.get("Name", "").startswith(_NAME):
            found[task.name] = (fields.get("State", ""), fields.get("voluntary_ctxt_switches", ""))
    return found


Failure = type[BaseException] | None
"""What ended an operation: the type of an exception, or None if it succeeded."""

_Result = TypeVar("_Result")

_finished_with: WeakSet[TimingLogger] = WeakSet()


class GroupOperation(Protocol):
    """The protocol of one operation of a process group, and how most end by their future.

    Attributes:
        goes_on: whether it was issued to go on in the background, so that a wait for it is a separate row.
    """

    goes_on: bool

    def end(self, failure: Failure) -> None:
        """Note that the operation ended now; the first call writes the row, on any thread."""

    def lose(self) -> None:
        """Write the row as unresolved, unless it is written already: the end cannot be seen any more."""

    def end_by(self, future: torch.futures.Future[object]) -> None:
        """Have the operation end when ``future`` completes; does not wait."""
        call_when_done(future, self.end_of)

    def end_of(self, future: torch.futures.Future[object]) -> None:
        self.end(None)

    def wait(self, work: dist.Work, *args: timedelta, **kwargs: timedelta) -> bool:
        """Call ``work.wait``, and record for how long the caller was blocked on the operation.

        Raises:
            BaseException: whatever ``work.wait`` raises.
        """


class HostOperation(BackgroundSpan):
    """An operation that is timed on the host's clock, and its row."""

    __slots__ = ()

    value_of = staticmethod(torch._C.Future.value)  # torch.futures.Future has one in Python around it
    call_when_done = staticmethod(call_when_done)


class DeviceOperation(DeviceSpan):
    """An operation that is timed between two events in a device's stream, and its row."""

    __slots__ = ("_device", "_logger", "_waited", "goes_on")

    goes_on: bool

    def begin(self, goes_on: bool, logger: TimingLogger, device: torch.device | None) -> bool:
        """Begin the operation now.

        Args:
            goes_on: whether it goes on in the background.
            logger: where the rows go.
            device: the device of its tensors; None for the calling thread's current one.

        Returns:
            False if the stream is being captured into a graph: nothing runs now, and there is no row.
        """
        self._logger = logger
        self._device = device
        self._waited = False
        self.goes_on = goes_on
        self.start_ns = perf_counter_ns()
        self.stream = stream_elsewhere(device)
        self.interval = open_interval(self.stream)
        self.stream = None  # it ends in the stream that is the device's current one by then
        if self.interval is None:
            return False
        if goes_on and isinstance(self.interval, DeviceInterval):
            self.interval.stream = None  # the backend runs it in a stream of its own
        self.leave_running()
        return True

    def end(self, failure: Failure) -> None:
        if self.claim():
            self.end_interval(failure)

    def lose(self) -> None:
        if self.claim():
            self.write(self.operation, self.start_ns, None, UNRESOLVED)

    def end_by(self, future: torch.futures.Future[object]) -> None:
        """Have the operation end when ``future`` completes; does not wait.

        A future of NCCL is complete at once, and holds events. A separate stream waits for these, and the
        end is marked there. torch itself would call back in one of its 32 shared streams, which would wait.
        """
        interval = self.interval
        if not (future.done() and isinstance(interval, DeviceInterval)):
            call_when_done(future, self.end_of)
            return
        if interval.lost:
            self.end(None)
            return
        failure: Failure = None
        with interval.device.waiting_stream():
            try:
                future.wait()
            except Exception as error:
                failure = type(error)
            self.end(failure)

    def end_of(self, future: torch.futures.Future[object]) -> None:
        self.end(None)

    def wait(self, work: dist.Work, *args: timedelta, **kwargs: timedelta) -> bool:
        return self._blocked_by(work.wait, *args, **kwargs)

    def _blocked_by(self, wait: Callable[..., _Result], *args: timedelta, **kwargs: timedelta) -> _Result:
        if not self.goes_on or self._waited:
            return self._wait_and_end(wait, *args, **kwargs)
        self._waited = True
        with self.wait_span():
            return self._wait_and_end(wait, *args, **kwargs)

    def _wait_and_end(self, wait: Callable[..., _Result], *args: timedelta, **kwargs: timedelta) -> _Result:
        try:
            result = wait(*args, **kwargs)
        except BaseException as error:
            self.end(type(error))
            raise
        self.end(None)
        return result

    def wait_span(self) -> Timer:
        """Return a context manager that records its block as the ``WAIT`` of the current stream."""
        return self._logger.record_device_operation(
            WAIT, self.message_size_bytes, self.layer_name, self.phase, self.iteration, self.epoch,
            group=self.group, group_size=self.group_size, seq=self.seq, peer=self.peer,
            stream=stream_elsewhere(self._device),
        )  # fmt: skip


class Nccl2Operation(DeviceOperation):
    """An operation of ``nccl2``, torch's NCCL backend since version 2.15, which differs in two respects.

    To ask a work for its future makes the current stream wait for the operation. So nobody asks but who
    wants the future, and that is a wait like another. And a synchronous call returns a work, too, though all
    is in the current stream.
    """

    __slots__ = ()

    def get_future(self, work: dist.Work) -> torch.futures.Future[object]:
        """Get the future of ``work`` for somebody who asked for it, and record the wait for it."""
        return self._blocked_by(work.get_future)


class UnrecordedOperation(GroupOperation):
    """An operation without a row; ``learn`` is called when it has completed, unless it failed."""

    def __init__(self, learn: Callable[[], object]) -> None:
        self._learn: Callable[[], object] | None = learn
        self.goes_on = False

    def end(self, failure: Failure) -> None:
        learn, self._learn = self._learn, None
        if learn is not None and failure is None:
            learn()

    def lose(self) -> None:
        self._learn = None

    def wait(self, work: dist.Work, *args: timedelta, **kwargs: timedelta) -> bool:
        result = work.wait(*args, **kwargs)
        self.end(None)
        return result


class CoalescedOperations(GroupOperation):
    """Several operations that were given to the backend one by one, and that it runs as one."""

    def __init__(self, operations: Sequence[HostOperation | DeviceOperation]) -> None:
        self._operations = operations
        self.goes_on = True
        self.group = operations[0].group

    def end(self, failure: Failure) -> None:
        for operation in self._operations:
            operation.end(failure)

    def lose(self) -> None:
        for operation in self._operations:
            operation.lose()

    def wait(self, work: dist.Work, *args: timedelta, **kwargs: timedelta) -> bool:
        """Call ``work.wait``, with a ``WAIT`` row for the first operation only: one wait serves them all."""
        result = self._operations[0].wait(work, *args, **kwargs)
        self.end(None)
        return result


def finish_with(logger: TimingLogger) -> None:
    """Have ``logger`` wait, before it is closed, for operations whose callbacks are about to come."""
    if logger not in _finished_with:
        _finished_with.add(logger)
        logger.before_close(partial(let_end, partial(_is_of, logger._channel), logger._channel.calls_in_c))


def _is_of(channel: Channel, operation: object) -> bool:
    return isinstance(operation, Span) and operation.caller.channel is channel
