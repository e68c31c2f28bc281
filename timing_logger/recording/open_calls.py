"""The open calls of each thread: calls that have not ended, and operations that a thread left running.

Another thread reads them here to find out what a process hangs in.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast
from weakref import ref

from timing_logger.recording.autograd_threads import (
    NO_PASS,
    find_engine,
    is_foreign,
    thread_that_called_the_pass,
)
from timing_logger.recording.cores.channel import Channel
from timing_logger.recording.cores.core import Core, over
from timing_logger.recording.cores.protocols import Counts, SeenCall
from timing_logger.recording.cores.python.core import Caller, OpenCall


class ForeignCaller:
    """A thread that Python did not start: perhaps one of autograd's, which works while another is blocked.

    Over the ``Caller`` of a core, whose ``thread`` it looks up each time.
    """

    OWN = ("_blocked", "_own", "_pass")
    __slots__ = OWN if TYPE_CHECKING else ()

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
        untimed: how often functions were called in which a rank may wait for others, and that make no row.
        process_group: what times process groups, "native" or "python"; "" if no group is timed.
        caller_class: of the core that the logger is over.
    """

    _nobody: Caller
    """The caller of calls that are written already: its channel has no room, and nobody reads its counts."""

    _former: list[Caller]
    """Those who were in these calls: a thread that is leaving one right now may still be at its caller."""

    def __init__(self, channel: Channel, core: Core) -> None:
        self._former = []
        self.channel = channel
        self.caller_class = core.Caller
        self._nobody = core.Caller("", Channel(0), set())
        self.running: set[OpenCall] = set()
        self._groups: dict[int, tuple[ref[Counts], str]] = {}
        self.callers: dict[int, Caller] = {}
        self.untimed: Counter[str] = Counter()
        self.process_group = ""

    def add_group(self, group: Counts, name: str) -> None:
        """Remember a group of ranks, for as long as it lives, by the ``name`` that its rows have."""
        key = id(group)
        self._groups[key] = ref(group, lambda _: self._groups.pop(key, None)), name

    def groups(self) -> list[tuple[Counts, str]]:
        """Return the groups that still exist, each with the name that its rows have."""
        return [(group, name) for held, name in list(self._groups.values()) if (group := held()) is not None]

    def __iter__(self) -> Iterator[SeenCall]:
        yield from list(self.running)
        yield from self.channel.calls_in_c()
        for caller in list(self.callers.values()):
            yield from caller.calls()

    def write_all(self, status: str) -> None:
        """Write all open calls and running operations with ``status``, because their end will not be seen.

        When they end after all, nothing more is written.
        """
        for call in [call for caller in list(self.callers.values()) for call in caller.calls()]:
            caller, records = call.caller, call.last_records(status)
            self._former.append(caller)
            if records and call.pass_to(self._nobody):
                for record in records:
                    caller.channel.put(record)
        for operation in list(self.running):
            records = operation.last_records(status)
            if operation.claim():
                for record in records:
                    operation.caller.channel.put(record)
        self.channel.write_calls_in_c(status)
        self._forget_threads()

    def forget(self) -> None:
        """Discard all open calls: in a forked child they are the parent's."""
        self.running.clear()
        self.channel.forget_calls_in_c()
        self._forget_threads()

    def _forget_threads(self) -> None:
        for caller in list(self.callers.values()):
            caller.innermost = None


class Callers(threading.local):
    """Gives each thread its :class:`Caller`, which is read once per record.

    Reading a thread-local costs four times as much as reading a plain attribute.
    """

    def __init__(self, open_calls: OpenCalls) -> None:
        thread = threading.current_thread()
        kind = open_calls.caller_class
        if is_foreign(thread):
            kind = cast("type[Caller]", over(ForeignCaller, kind))
        self.current = kind(thread.name, open_calls.channel, open_calls.running)
        open_calls.callers[threading.get_ident()] = self.current
