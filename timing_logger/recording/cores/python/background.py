"""The Python core's operations in the background, and the waits for them: see ``calls``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from timing_logger.record import OK, UNRESOLVED, WAIT, RawRecord
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.cores.protocols import Waitable, has_ended
from timing_logger.recording.cores.python.calls import Caller, OpenCall, Span


class Wait(OpenCall):
    """A call that blocks its thread until operations that were left running have ended."""

    __slots__ = ("of", "thread")

    def __init__(self, of: Sequence[Span], caller: Caller) -> None:
        """Begin a wait of ``caller`` for these operations."""
        self.of = of
        self.caller = caller
        self.thread = caller.thread
        self.end_ns = 0
        self.enter()

    def open_records(self, status: str) -> Iterator[RawRecord]:
        """Yield a record for each operation that is still waited for."""
        for span in self.of:
            if span in span.caller.running:
                yield span._record(WAIT, self.start_ns, None, status, self.thread)


class BeginsWaits(Protocol):
    """A recorder, as the waits for its operations need it."""

    def begin_wait(self, of: Sequence[Span]) -> Wait:
        """Begin a wait of the calling thread for these operations."""


class BackgroundSpan(Span):
    """An operation that goes on when its call returns: whoever sees its end first writes its row.

    With the native core no Python code runs when a future tells of the end. On a thread that Python did not
    start, the first frame of each callback would have memory mapped and unmapped, which stops all cores.

    Attributes:
        goes_on: whether it was issued to go on in the background, so that a wait for it is a separate row.
        learn: fills in what only the completed operation tells; None if nothing is missing.
        ended_ns: when it was seen to end, on the axis of ``perf_counter_ns``; None before.
        value_of: returns the value of a future, or raises what went wrong: a class attribute.
        call_when_done: has a future call a function when it completes: a class attribute.
    """

    __slots__ = ("_behind", "_blocked_from_ns", "_recorder", "_waited", "ended_ns", "goes_on", "learn")

    goes_on: bool
    learn: Callable[[], None] | None
    ended_ns: int | None
    # of one instant, which the one who writes takes, in one step and without a lock
    _blocked_from_ns: list[int]
    _behind: BackgroundSpan | None
    value_of: Callable[[Any], object]
    call_when_done: Callable[[Any, Callable[[Any], None]], None]

    def begin(self, goes_on: bool, recorder: BeginsWaits) -> None:
        """Begin the operation now; ``recorder`` knows the threads that will wait for it."""
        self._recorder = recorder
        self.goes_on = goes_on
        self.ended_ns = self._behind = self.learn = None
        self._waited = False
        self._blocked_from_ns = []
        self.start_ns = perf_counter_ns()
        self.leave_running()

    # -- the end ----------------------------------------------------------------------------------

    def end(self, failure: type[BaseException] | None) -> None:
        """Note that the operation ended now; the first call writes the row, on any thread."""
        self._end_at(perf_counter_ns(), _status(failure))

    def end_by(self, future: Any) -> None:
        """Have the operation end when ``future`` completes; does not wait."""
        if future.done():  # torch would call back at once, and swallow what a signal handler raises there
            self.end_of(future)
        else:
            self.call_when_done(future, self.end_of)

    def end_of(self, future: object) -> None:
        """Note that the operation ended now, as ``future`` tells: to be called back by it."""
        end_ns = perf_counter_ns()  # first, as what follows takes time
        status = OK
        try:
            self.value_of(future)
        except Exception as error:
            status = _status(type(error))
        self._end_at(end_ns, status)

    def lose(self) -> None:
        """Write the row as unresolved, unless it is written already: the end cannot be seen any more."""
        if self.ended_ns is None and self.claim():
            self.write(self.operation, self.start_ns, None, UNRESOLVED)

    def _end_at(self, end_ns: int, status: str) -> None:
        if self.ended_ns is None and self.claim():
            self.write(self.operation, self.start_ns, end_ns, status)
            self.ended_ns = end_ns
            self._write_wait()

    # -- waits for it -----------------------------------------------------------------------------

    def wait(self, work: Waitable, *args: Any, **kwargs: Any) -> Any:
        """Call ``work.wait``, and record for how long the caller was blocked on the operation.

        Raises:
            BaseException: whatever ``work.wait`` raises.
        """
        blocked = self._recorder.begin_wait((self,))
        try:
            result = work.wait(*args, **kwargs)
        except BaseException as error:
            if has_ended(work):  # else only this wait failed
                self.end(type(error))
            self._end_wait(blocked, type(error))
            raise
        if self.learn is not None:
            self.learn()
        if self.ended_ns is None:
            self.end(None)
        self._end_wait(blocked, None)
        return result

    def _end_wait(self, blocked: Wait, failure: type[BaseException] | None) -> None:
        end_ns = blocked.leave()
        if self.goes_on and not self._waited:
            self._waited = failure is None
            self.write(WAIT, blocked.start_ns, end_ns, _status(failure), blocked.thread)

    def block_from(self, instant_ns: int, behind: BackgroundSpan | None) -> None:
        """Have a ``WAIT`` row written when the operation has ended: its thread is blocked until then.

        Args:
            instant_ns: now.
            behind: the operation that the thread waits for first; None for none.
        """
        self._behind = behind
        self._blocked_from_ns.append(instant_ns)
        self._write_wait()

    def _write_wait(self) -> None:
        end_ns = self.ended_ns
        if end_ns is None:
            return
        try:
            start_ns = self._blocked_from_ns.pop()
        except IndexError:
            return
        behind = self._behind
        while behind is not None:
            start_ns = max(start_ns, end_ns if behind.ended_ns is None else min(behind.ended_ns, end_ns))
            behind = behind._behind
        self.write(WAIT, start_ns, max(start_ns, end_ns), OK)


def _status(failure: type[BaseException] | None) -> str:
    return OK if failure is None else f"error:{failure.__name__}"
