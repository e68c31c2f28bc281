"""What each thread is in just now: its calls that have not ended, and what it left running.

Whoever wants to know what a process hangs in asks here, from another thread: entering and leaving a call
links and unlinks one object, which is all that a training thread pays for it.
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
"""How many calls of a thread are looked at: who leaves blocks without end keeps no more of them than that."""


class OpenCall:
    """A call that some thread has entered and, as long as it has no end, not left.

    Attributes:
        caller: the thread that is in it.
        outer: the call around it.
        start_ns, end_ns: instants of ``perf_counter_ns``; the second is not there while it is open.
    """

    __slots__ = ("caller", "end_ns", "outer", "start_ns")

    caller: Caller
    outer: OpenCall | None
    start_ns: int
    end_ns: int

    def enter(self) -> None:
        """The calling thread is in it from now on."""
        caller = self.caller
        self.outer = caller.innermost
        caller.innermost = self
        self.start_ns = perf_counter_ns()

    def leave(self) -> int:
        """It ends now; the instant."""
        self.end_ns = end_ns = perf_counter_ns()
        caller = self.caller
        if caller.innermost is self:
            caller.innermost = self.outer
        else:
            self.unlink()
        return end_ns

    def unlink(self) -> None:
        """Leave before a call that was entered later, as generators and tasks do."""
        inner = self.caller.innermost
        while inner is not None:
            if inner.outer is self:
                inner.outer = self.outer
                return
            inner = inner.outer

    @property
    def is_open(self) -> bool:
        """Whether it has begun, by the clock, and not ended."""
        return hasattr(self, "start_ns") and not hasattr(self, "end_ns")

    def open_records(self, status: str) -> Iterator[RawRecord]:
        """What is known of it before it has ended."""
        raise NotImplementedError

    def write_open(self, status: str) -> None:
        for record in self.open_records(status):
            self.caller.channel.put(record)

    def leave_running(self) -> None:
        """What it stands for goes on when its call returns, until somebody takes it with :meth:`claim`."""
        self.caller.running.add(self)

    def claim(self) -> bool:
        """Whether the calling thread is the one that writes it. No lock: taking out of a set is one step."""
        try:
            self.caller.running.remove(self)
        except KeyError:
            return False
        return True


class Caller:
    """What a record takes from its thread: the name; and the calls that it is in.

    Attributes:
        channel: where the thread's records go.
        running: the operations that threads of this logger left running, and that nobody saw end.
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
        """Those that it is in, the innermost first."""
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
        """The thread that called the backward pass under way here; else, or if nobody can tell, its own name.

        It is looked for once in a pass: the pass has one caller as long as it lasts.
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
        channel: where records go.
        running: see :class:`Caller`. Taking one out is one step: of two who see its end, one writes it.
        callers: by thread.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.running: set[OpenCall] = set()
        self._groups: dict[int, tuple[ref[Counts], str]] = {}
        self.callers: dict[int, Caller] = {}

    def add_group(self, group: Counts, name: str) -> None:
        """Remember, as long as it lives, a group of ranks whose rows call it ``name``."""
        key = id(group)
        self._groups[key] = ref(group, lambda _: self._groups.pop(key, None)), name

    def groups(self) -> list[tuple[Counts, str]]:
        return [(group, name) for held, name in list(self._groups.values()) if (group := held()) is not None]

    def __iter__(self) -> Iterator[OpenCall]:
        yield from list(self.running)
        for caller in list(self.callers.values()):
            yield from caller.calls()

    def write_all(self, status: str) -> None:
        """Write what is open, as nobody will see it end; its end then writes nothing more."""
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
        """In a forked child: these are its parent's."""
        self.running.clear()
        for caller in self.callers.values():
            caller.innermost = None


class Callers(threading.local):
    """Each thread's :class:`Caller`, asked for once a record: what is local to a thread costs four times
    as much to read.
    """

    def __init__(self, open_calls: OpenCalls) -> None:
        thread = threading.current_thread()
        kind = ForeignCaller if is_foreign(thread) else Caller
        self.current = kind(thread.name, open_calls.channel, open_calls.running)
        open_calls.callers[threading.get_ident()] = self.current


class _NoChannel(Channel):
    """Lets go of what was written already."""

    def __init__(self) -> None:
        super().__init__(0)
        self.count_overflow = lambda: 0


NOBODY = Caller("", _NoChannel(), set())
