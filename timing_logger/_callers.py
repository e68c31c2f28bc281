"""The threads that record: what a record takes from its thread, and the calls that each of them is in."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from timing_logger._channel import Channel
from timing_logger._engine_threads import NO_PASS, find_engine, is_foreign, thread_that_called_the_pass

OpenCalls = dict[int, list[list[Any]]]
"""By thread: the records of the calls that it is in, the innermost last; what is not known yet is None."""


class Caller:
    """What a record takes from its thread: the name, and the label in force; and the calls that it is in."""

    __slots__ = ("labelled", "layer_name", "open_calls", "phase", "thread")

    thread: str

    def __init__(self, thread: str) -> None:
        self.thread = thread
        self.layer_name = ""
        self.phase = ""
        self.labelled = False
        self.open_calls: list[list[Any]] = []


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


class Callers(threading.local):
    """Each thread's :class:`Caller`, asked for once a record: what is local to a thread costs four times
    as much to read.
    """

    def __init__(self, open_calls: OpenCalls) -> None:
        thread = threading.current_thread()
        self.current = (ForeignCaller if is_foreign(thread) else Caller)(thread.name)
        open_calls[threading.get_ident()] = self.current.open_calls


def write_open_calls(open_calls: OpenCalls, channel: Channel) -> None:
    """Those of all threads, as far as they are known: nobody will see them end."""
    for calls in list(open_calls.values()):
        with contextlib.suppress(IndexError):  # the last one may end at this moment
            while True:
                channel.put(tuple(calls.pop(0)))
