"""The threads that record: what a record takes from its thread, and the calls that each of them is in."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from timing_logger._channel import Channel

OpenCalls = dict[int, list[list[Any]]]
"""By thread: the records of the calls that it is in, the innermost last; what is not known yet is None."""


class Caller:
    """What a record takes from its thread: the name, and the label in force; and the calls that it is in."""

    __slots__ = ("labelled", "layer_name", "open_calls", "phase", "thread")

    def __init__(self) -> None:
        self.thread = threading.current_thread().name
        self.layer_name = ""
        self.phase = ""
        self.labelled = False
        self.open_calls: list[list[Any]] = []


class Callers(threading.local):
    """Each thread's :class:`Caller`, asked for once a record: what is local to a thread costs four times
    as much to read.
    """

    def __init__(self, open_calls: OpenCalls) -> None:
        self.current = Caller()
        open_calls[threading.get_ident()] = self.current.open_calls


def write_open_calls(open_calls: OpenCalls, channel: Channel) -> None:
    """Those of all threads, as far as they are known: nobody will see them end."""
    for calls in list(open_calls.values()):
        with contextlib.suppress(IndexError):  # the last one may end at this moment
            while True:
                channel.put(tuple(calls.pop(0)))
