"""The Python core's operations in the background, and the waits for them: see ``calls``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.cores.protocols import Handle, Waitable, has_ended
from timing_logger.recording.cores.python.calls import Caller, OpenCall, Span
from timing_logger.schema.record import OK, UNRESOLVED, WAIT, RawRecord


class Wait(OpenCall):
    """A call that blocks its thread until operations that were left running have ended."""

    __slots__ = ("of", "thread")

    of: Sequence[Span]
    thread: str

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

    @property
    def _caller(self) -> Caller:
        """What the calling thread's records have in common."""

    def begin_wait(self, of: Sequence[Span]) -> Wait:
        """Begin a wait of the calling thread for these operations."""


class BackgroundSpan(Span):
    """An operation that goes on when its call returns: whoever sees its end first writes its row.

    With the native core no Python code runs when a future tells of the end. On a thread that Python did not
    start, the first frame of each callback would have memory mapped and unmapped, which stops all cores.

    Attributes:
        goes_on: whether it was issued to go on in the background, so that a wait for it is a separate row.
        learn: fills in what is known only at its end, from what tells of that, and returns the status of its
            rows; None if nothing is missing.
        ended_ns: when it was seen to end, on the axis of ``perf_counter_ns``; None before.
        value_of: returns the value of a future, or raises what went wrong: a class attribute.
        call_when_done: has a future call a function when it completes: a class attribute.
    """

    __slots__ = ("_behind", "_blocked_from_ns", "_recorder", "_waited", "ended_ns", "goes_on", "learn")

    goes_on: bool
    _recorder: BeginsWaits
    learn: Callable[[BackgroundSpan, Any], str] | None
    ended_ns: int | None
    # of one instant, which the one who writes takes, in one step and without a lock
    _blocked_from_ns: list[int]
    _behind: BackgroundSpan | None
    value_of: Callable[[Any], object]
    call_when_done: Callable[[Any, Callable[[Any], None]], None]

    def begin(
        self,
        goes_on: bool,
        recorder: BeginsWaits,
        start_ns: int | None = None,
        has_rows: bool = True,
    ) -> None:
        """Begin the operation.

        Args:
            goes_on: whether a wait for it is a separate row.
            recorder: knows the threads that will wait for it.
            start_ns: when it began; None for now.
            has_rows: whether it is recorded; one that is not may still learn something at its end.
        """
        self._recorder = recorder
        self.goes_on = goes_on
        self.ended_ns = self._behind = self.learn = None
        self._waited = False
        self._blocked_from_ns = []
        self.start_ns = perf_counter_ns() if start_ns is None else start_ns
        if has_rows:
            self.caller.running.add(self)

    # -- the end ----------------------------------------------------------------------------------

    def end(self, failure: type[BaseException] | None) -> None:
        """Note that the operation ended now; the first call writes the row, on any thread."""
        self.end_with(_status(failure))

    def end_with(self, status: str) -> None:
        """Note that the operation ended now, with this status in its row."""
        self._end_at(perf_counter_ns(), status)

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

    def _end_in(self, call: Completion, told: object, status: str) -> None:
        """Note that ``call``, which has returned, saw the end: it is a wait for this operation.

        Args:
            call: the call.
            told: what tells of the end, to learn from; None if nothing does.
            status: the status of both rows, unless there is more to learn.
        """
        if self.learn is not None and told is not None:
            status = self.learn(self, told)
        if self.claim():
            self.ended_ns = end_ns = call.end_ns
            self.write(self.operation, self.start_ns, end_ns, status)
            self.write(WAIT, call.start_ns, end_ns, status, call.thread)

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
            self.learn(self, work)
        if self.ended_ns is None:
            self.end(None)
        self._end_wait(blocked, None)
        return result

    def _end_wait(self, blocked: Wait, failure: type[BaseException] | None) -> None:
        end_ns = blocked.leave()
        if self.goes_on and not self._waited:
            self._waited = failure is None
            record = self._record(WAIT, blocked.start_ns, end_ns, _status(failure), blocked.thread)
            blocked.caller.channel.put(record)

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


class Completion(Wait):
    """A call that is given handles, and may see the operations end that these hold.

    Attributes:
        learns: whether one of the operations has something to learn from what tells of its end.
    """

    __slots__ = ("_blocks", "_handles", "learns")

    _blocks: bool
    _handles: list[Handle]
    learns: bool

    @classmethod
    def of_handles(cls, handles: Sequence[object], blocks: bool) -> Completion | None:
        """Begin such a call now; return None if no handle holds an operation.

        Never raises, as the call itself raises for wrong arguments.

        Args:
            handles: what it is given; some may be no handles of ours.
            blocks: whether the thread counts as blocked on the operations while it is in the call.
        """
        of: list[BackgroundSpan] = []
        learns = False
        try:
            len(handles)  # what has no length is refused by the call, which is to find it as it is
            given: list[Any] = list(handles)
            for handle in given:
                operation = getattr(handle, "_operation", None)
                if isinstance(operation, BackgroundSpan):
                    of.append(operation)
                    learns = learns or operation.learn is not None
        except Exception:
            return None
        if not of:
            return None
        call = cls.__new__(cls)
        call.of, call._handles, call._blocks, call.learns = of, given, blocks, learns
        call.caller = caller = of[0]._recorder._caller
        call.thread = caller.thread
        call.end_ns = 0
        if blocks:
            call.enter()
        else:
            call.start_ns = perf_counter_ns()
        return call

    def saw(self, places: Iterable[int] | None, told: Sequence[object] | None) -> None:
        """The call has returned, and saw some of the operations end.

        Args:
            places: of the handles of these, in what the call was given; None if it saw all end.
            told: what tells of each end, in the same order.
        """
        self._leave()
        handles = self._handles
        for order, place in enumerate(range(len(handles)) if places is None else places):
            self._settle(handles[place], told[order] if told and order < len(told) else None, OK)

    def failed(self, error: BaseException) -> None:
        """The call has raised. Of a handle that is false now, the operation is over; others may go on."""
        self._leave()
        status = _status(type(error))
        for handle in self._handles:
            if isinstance(getattr(handle, "_operation", None), BackgroundSpan) and not handle:
                self._settle(handle, None, status)

    def _leave(self) -> None:
        if self._blocks:
            self.leave()
        else:
            self.end_ns = perf_counter_ns()

    def _settle(self, handle: Handle, told: object, status: str) -> None:
        operation = getattr(handle, "_operation", None)
        if isinstance(operation, BackgroundSpan):
            handle._operation = None
            operation._end_in(self, told, status)


class LearnSize:
    """Fills in the bytes of a received message, as what tells of its end has them: a ``learn``.

    Args:
        count: returns how many units there are in a message, given what tells of its end, and the unit.
        unit: one byte.
        undefined: what ``count`` returns if nobody knows.
    """

    __slots__ = ("_count", "_undefined", "_unit")

    def __init__(self, count: Callable[[Any, Any], int], unit: object, undefined: int) -> None:
        self._count, self._unit, self._undefined = count, unit, undefined

    def __call__(self, operation: BackgroundSpan, told: object) -> str:
        """Fill in the bytes, and return the status of the rows."""
        n_bytes = self._count(told, self._unit)
        operation.message_size_bytes = None if n_bytes == self._undefined else n_bytes
        return OK


def _status(failure: type[BaseException] | None) -> str:
    return OK if failure is None else f"error:{failure.__name__}"
