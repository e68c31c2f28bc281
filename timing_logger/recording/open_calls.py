"""The open calls of each thread: calls that have not ended, and operations that a thread left running.

Another thread reads them here to find out what a process hangs in. Entering and leaving a call links and
unlinks one object, which is all that a training thread pays for it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING
from weakref import ref

from timing_logger.record import RawRecord
from timing_logger.recording.autograd_threads import (
    NO_PASS,
    find_engine,
    is_foreign,
    thread_that_called_the_pass,
)
from timing_logger.recording.channel import Channel
from timing_logger.recording.clock import perf_counter_ns

if TYPE_CHECKING:
    from timing_logger.recording.protocols import Counts

_DEEPEST = 1000
"""The most open calls of one thread that are followed and kept, in case blocks are entered and never left."""


class OpenCall:
    """A call that some thread has entered and, as long as it has no end, not left.

    Attributes:
        caller: the thread that is in the call.
        outer: the call around this one; None if there is none.
        start_ns, end_ns: instants of ``perf_counter_ns``; ``end_ns`` is not set while the call is open.
    """

    __slots__ = ("caller", "end_ns", "outer", "start_ns")

    caller: Caller
    outer: OpenCall | None
    start_ns: int
    end_ns: int

    def enter(self) -> None:
        """Begin the call now, as the innermost one of its thread."""
        caller = self.caller
        self.outer = caller.innermost
        caller.innermost = self
        self.start_ns = perf_counter_ns()

    def leave(self) -> int:
        """End the call now and return that instant in ns."""
        self.end_ns = end_ns = perf_counter_ns()
        caller = self.caller
        if caller.innermost is self:
            caller.innermost = self.outer
        else:
            self.unlink()
        return end_ns

    def unlink(self) -> None:
        """Leave while a call that was entered later is still open, as generators and tasks do."""
        inner = self.caller.innermost
        while inner is not None:
            if inner.outer is self:
                inner.outer = self.outer
                return
            inner = inner.outer

    @property
    def is_open(self) -> bool:
        """Whether the call has a start time and no end time yet."""
        return hasattr(self, "start_ns") and not hasattr(self, "end_ns")

    def open_records(self, status: str) -> Iterator[RawRecord]:
        """Yield the records of the call as far as they are known before it has ended."""
        raise NotImplementedError

    def write_open(self, status: str) -> None:
        """Write the records of the call as far as they are known, with ``status``."""
        for record in self.open_records(status):
            self.caller.channel.put(record)

    def leave_running(self) -> None:
        """Mark the operation as one that goes on when its call returns, until :meth:`claim` takes it."""
        self.caller.running.add(self)

    def claim(self) -> bool:
        """Return whether the calling thread is the one to write this operation: at most one thread gets True.

        There is no lock: removal from a set is one step.
        """
        try:
            self.caller.running.remove(self)
        except KeyError:
            return False
        return True


class Caller:
    """What a record takes from its thread: the thread's name, and the calls that it is in.

    Attributes:
        thread: the name of the thread.
        channel: the channel of the thread's records.
        running: the operations that threads of this logger left running and whose end was not seen yet.
        innermost: the call that the thread entered last, of those that it has not left.
    """

    __slots__ = ("channel", "innermost", "running", "thread")

    thread: str

    def __init__(self, thread: str, channel: Channel, running: set[OpenCall]) -> None:
        self.thread = thread
        self.channel = channel
        self.running = running
        self.innermost: OpenCall | None = None

    def calls(self) -> Iterator[OpenCall]:
        """Yield the open calls of the thread, the innermost first."""
        call = self.innermost
        for _ in range(_DEEPEST):
            if call is None:
                return
            if call.is_open:
                yield call
            call = call.outer
        if call is not None:
            call.outer = None


class ForeignCaller(Caller):
    """A thread that Python did not start: perhaps one of autograd's, which works while another is blocked."""

    __slots__ = ("_blocked", "_own", "_pass")

    _blocked: str | None
    _own: str
    _pass: int

    @property
    def thread(self) -> str:
        """The name of the thread that called the current backward pass.

        Outside of a pass, or if that thread is unknown, it is this thread's own name. The caller is looked up
        once per pass, since it never changes during one.
        """
        engine = find_engine()
        number = NO_PASS if engine is None else engine.current_pass()
        if number != self._pass:
            self._pass = number
            self._blocked = None if number == NO_PASS else thread_that_called_the_pass()
        return self._own if self._blocked is None else self._blocked

    @thread.setter
    def thread(self, own: str) -> None:
        self._own, self._blocked, self._pass = own, None, NO_PASS


class OpenCalls:
    """The calls that threads of one logger are in, and the operations that they left running.

    Attributes:
        channel: the channel of the logger's records.
        running: see :class:`Caller`. Removing an operation is one step: of two threads that see its end, only
            one writes it.
        callers: the :class:`Caller` of each thread, by thread identifier.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.running: set[OpenCall] = set()
        self._groups: dict[int, tuple[ref[Counts], str]] = {}
        self.callers: dict[int, Caller] = {}

    def add_group(self, group: Counts, name: str) -> None:
        """Remember a group of ranks, for as long as it lives, by the ``name`` that its rows have."""
        key = id(group)
        self._groups[key] = ref(group, lambda _: self._groups.pop(key, None)), name

    def groups(self) -> list[tuple[Counts, str]]:
        """Return the groups that still exist, each with the name that its rows have."""
        return [(group, name) for held, name in list(self._groups.values()) if (group := held()) is not None]

    def __iter__(self) -> Iterator[OpenCall]:
        yield from list(self.running)
        for caller in list(self.callers.values()):
            yield from caller.calls()

    def write_all(self, status: str) -> None:
        """Write all open calls and running operations with ``status``, because their end will not be seen.

        When they end after all, nothing more is written.
        """
        inside = [call for caller in list(self.callers.values()) for call in caller.calls()]
        for call in inside:
            call.write_open(status)
        for call in inside:
            call.caller = NOBODY
        for operation in list(self.running):
            if operation.claim():
                operation.write_open(status)
        self.forget()

    def forget(self) -> None:
        """Discard all open calls: in a forked child they are the parent's."""
        self.running.clear()
        for caller in self.callers.values():
            caller.innermost = None


class Callers(threading.local):
    """Gives each thread its :class:`Caller`, which is read once per record.

    Reading a thread-local costs four times as much as reading a plain attribute.
    """

    def __init__(self, open_calls: OpenCalls) -> None:
        thread = threading.current_thread()
        kind = ForeignCaller if is_foreign(thread) else Caller
        self.current = kind(thread.name, open_calls.channel, open_calls.running)
        open_calls.callers[threading.get_ident()] = self.current


NOBODY = Caller("", Channel(0), set())
"""The caller of calls that were written already: its channel has no room, and nobody reads what it counts."""
