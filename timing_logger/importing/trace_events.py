"""Read the events of a Chrome trace as they stand in the file, a few megabytes at a time.

A trace is one JSON object, whose list ``traceEvents`` may have gigabytes. Blocks of it are cut between two
events, and each is decoded at once into what is needed of an event; the rest of it is skipped. So no more
than a block is held.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from timing_logger.errors import NotImportableError
from timing_logger.importing.imported import LeftOut
from timing_logger.importing.source_files import DamagedError, blocks_of

_BLOCK_BYTES = 2**22
_MOST_HEAD_BYTES = 2**26
"""What stands before the events: some thousand bytes, and the ranks of each process group."""

_MOST_EVENT_BYTES = 2**24
_MOST_TRIES = 4  # where the end of an event is looked for, from the end of a block
_TO_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_CUT = "the end of a trace that is cut or damaged"


class Args(msgspec.Struct, gc=False):
    """The arguments of an event that are used here; others are skipped."""

    external_id: Any = msgspec.field(default=None, name="External id")
    correlation: Any = None
    device: Any = None
    stream: Any = None
    bytes: Any = None
    collective: Any = msgspec.field(default=None, name="Collective name")
    n_elements: Any = msgspec.field(default=None, name="In msg nelems")
    dtype: Any = None
    group: Any = msgspec.field(default=None, name="Process Group Name")
    group_kind: Any = msgspec.field(default=None, name="Process Group Description")
    group_size: Any = msgspec.field(default=None, name="Group size")
    group_ranks: Any = msgspec.field(default=None, name="Process Group Ranks")
    seq: Any = msgspec.field(default=None, name="Seq")
    rank: Any = msgspec.field(default=None, name="Rank")
    to_rank: Any = msgspec.field(default=None, name="Dst Rank")
    from_rank: Any = msgspec.field(default=None, name="Src Rank")
    shapes: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Input type")
    thread_name: Any = msgspec.field(default=None, name="name")


class Event(msgspec.Struct, gc=False):
    """An event; ``ts`` and ``dur`` are in us, from ``baseTimeNanoseconds`` of the trace on."""

    name: str = ""
    ph: str = ""
    cat: str = ""
    pid: Any = None
    tid: Any = None
    ts: float = 0.0
    dur: float = 0.0
    args: Args | None = None


Take = Callable[[list[Event]], None]


_decoded = msgspec.json.Decoder(list[Event]).decode


def read_trace(path: Path, take: Take, left_out: LeftOut) -> dict[str, Any]:
    """Have ``take`` called with the events of a trace, some thousand at a time, in their order.

    Events that are none are counted in ``left_out``, as is the end of a trace that is cut.

    Returns:
        What the trace says outside of its events: the members of its object.

    Raises:
        NotImportableError: the file is no trace.
    """
    reader = _Reader(path, take, left_out)
    try:
        for block in blocks_of(path, _BLOCK_BYTES):
            reader.add(block)
    except DamagedError:
        left_out.add(_CUT)
    return reader.end()


class _Reader:
    """Takes a trace block by block."""

    def __init__(self, path: Path, take: Take, left_out: LeftOut) -> None:
        self._path, self._take, self._left_out = path, take, left_out
        self._rest = b""
        self._members: dict[str, Any] | None = None  # None before the events begin
        self._is_list = False
        self._over = self._is_broken = False  # after the events; where they cannot be read on

    def add(self, block: bytes) -> None:
        """Take the next block."""
        if self._is_broken:
            return
        self._rest += block
        if self._members is None:
            self._begin()
        elif not self._over:
            self._take_events()
        if len(self._rest) > _MOST_HEAD_BYTES:
            self._refuse_or_break()

    def end(self) -> dict[str, Any]:
        """Take what is left, and return what the trace says outside of its events."""
        if self._members is None:
            self._refuse()
        if not self._over and not self._is_broken:
            self._take_one_by_one()
            if not self._over and not (self._is_list and not self._rest.strip(b" \t\r\n,")):
                self._left_out.add(_CUT)
        return {**(self._members or {}), **self._tail()}

    def _tail(self) -> dict[str, Any]:
        if not self._over or self._is_list:
            return {}
        try:
            found = json.loads(b"{" + self._rest.lstrip(b" \t\r\n,"))
        except (ValueError, RecursionError):
            self._left_out.add(_CUT)
            return {}
        return found if isinstance(found, dict) else {}

    # -- before the events -----------------------------------------------------------------------------

    def _begin(self) -> None:
        head = self._rest.lstrip(b"\xef\xbb\xbf \t\r\n")
        if head.startswith(b"["):  # a trace that is nothing but its events
            self._is_list, self._members, self._rest = True, {}, head[1:]
        elif found := _TO_EVENTS.search(head):
            try:
                members = json.loads(head[: found.end()] + b"]}")
            except (ValueError, RecursionError):
                self._refuse()
            self._members, self._rest = members, head[found.end() :]
        elif head and not head.startswith(b"{"):
            self._refuse()
        else:
            return
        self._take_events()

    def _refuse_or_break(self) -> None:
        if self._members is None:
            self._refuse()
        if not self._over:
            self._left_out.add(_CUT)
        self._is_broken, self._rest = True, b""

    def _refuse(self) -> None:
        raise NotImportableError(
            f"paths: {str(self._path)!r} is no Chrome trace: it has no list 'traceEvents'. Name the files "
            "that torch.profiler wrote (export_chrome_trace)."
        )

    # -- events ----------------------------------------------------------------------------------------

    def _take_events(self) -> None:
        """Take all events that are complete, if an end of one can be found."""
        rest, end = self._rest, len(self._rest)
        for _ in range(_MOST_TRIES):
            end = _end_before(rest, end)
            if end < 0:
                break
            try:
                events = _decoded(b"[" + rest[:end] + b"]")
            except msgspec.ValidationError:
                break
            except (msgspec.DecodeError, RecursionError):
                continue  # it is the end of something within an event
            self._take(events)
            self._rest = rest[end:].lstrip(b" \t\r\n,")
            return
        self._take_one_by_one()

    def _take_one_by_one(self) -> None:
        """Take one event after the other: at the end, and where events are no events, or nested in others."""
        text = self._rest.decode("utf-8", "replace")
        decoder, at, events = json.JSONDecoder(), 0, []
        while True:
            at = _after_blanks(text, at)
            if text[at : at + 1] == "]":
                self._over, at = True, at + 1
                break
            try:
                found, at = decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                break
            events += self._event_of(found)
        self._take(events)
        self._rest = text[at:].encode("utf-8", "replace")
        if not self._over and len(self._rest) > _MOST_EVENT_BYTES:
            self._refuse_or_break()

    def _event_of(self, found: object) -> list[Event]:
        try:
            return _decoded(b"[" + msgspec.json.encode(found) + b"]")
        except (msgspec.MsgspecError, OverflowError, TypeError, ValueError, RecursionError):
            self._left_out.add("an event that is none: its name, kind or times are of a wrong type")
            return []


def _end_before(text: bytes, end: int) -> int:
    """Return the end of the last object before ``end`` that a comma follows; -1 if there is none."""
    while (end := text.rfind(b"}", 0, end)) >= 0:
        after = text[end + 1 : end + 65].lstrip(b" \t\r\n")
        if after.startswith(b","):
            return end + 1
    return -1


def _after_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n,":
        at += 1
    return at
