"""From the events of one location of an OTF2 archive, a thread or a stream, to its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from timing_logger.importing.imported import LeftOut, integer
from timing_logger.schema.record import DEVICE_CLOCK, HOST_CLOCK, OK, WAIT, RawRecord

MPI = "MPI_"
_UNTOLD = frozenset({"COMM_RANK", "COMM_SIZE", "WTIME", "WTICK", "FINALIZE", "INITIALIZED", "FINALIZED"})
"""Functions of MPI that neither wait for others nor do work, or that only end the program."""

_SET_UP = frozenset({"INIT", "INIT_THREAD"})
_COMPLETING = ("WAIT", "TEST")
Numbers: TypeAlias = "tuple[str, int | None, int | None, int | None]"
"""The group of a row and its size, the number in it, and the other rank."""


class Group(NamedTuple):
    """A communicator: its name in rows, and its size; None if that is not known."""

    name: str
    size: int | None


class Begun(NamedTuple):
    """A message under way: when it began; of one that is sent also its bytes, and the numbers of its row."""

    start_ns: int
    n_bytes: int | None = None
    numbers: Numbers = ("", None, 0, None)


class Open(NamedTuple):
    """A region that has been entered."""

    name: str
    start_ns: int
    is_mpi: bool


class Location:
    """A thread of a rank, or a stream of its device, while its events are read in their order.

    Args:
        thread: the name of the thread in rows.
        stream: the name of the stream; "" for a thread.
        group_of: returns a communicator.
        left_out: counts events that cannot be used.
    """

    def __init__(self, thread: str, stream: str, group_of: Callable[[Any], Group], left_out: LeftOut) -> None:
        self._thread, self._stream, self._group_of, self._left_out = thread, stream, group_of, left_out
        self._open: list[Open] = []
        self._told: list[RawRecord] = []  # of the call of MPI that is open; its end is not known yet
        self._requests: dict[Any, Begun] = {}
        self._collectives: Counter[str] = Counter()
        self._messages: Counter[tuple[str, str, int | None]] = Counter()

    def take(self, kind: str, event: Any, at_ns: int) -> Iterator[RawRecord]:
        """Take an event, and yield the rows that end with it."""
        if kind == "Enter":
            name = str(event.region.name)
            self._open.append(Open(name, at_ns, name.startswith(MPI)))
        elif kind == "Leave":
            yield from self._leave(str(event.region.name), at_ns)
        elif kind in _TAKEN and self._open and self._open[-1].is_mpi:
            yield from _TAKEN[kind](self, event, at_ns)
        elif kind in _TAKEN:
            self._left_out.add("an event of MPI outside of a call of MPI")

    def end(self) -> None:
        """Count what was not left, or is still under way."""
        for _ in self._open:
            self._left_out.add("a region that is not left before the archive ends")
        for _ in self._requests:
            self._left_out.add("a message that is not complete before the archive ends")

    def _leave(self, name: str, at_ns: int) -> Iterator[RawRecord]:
        if not self._open or self._open[-1].name != name:
            self._left_out.add("a region that is left without being the innermost")
            return
        region = self._open.pop()
        if not region.is_mpi:
            yield self._row(name, region.start_ns, at_ns)
            return
        told, self._told = self._told, []
        for row in told:
            yield (*row[:6], region.start_ns, at_ns, *row[8:])
        plain = name.removeprefix(MPI).upper()
        if not told and plain in _SET_UP:
            yield self._row("MPI_INIT", region.start_ns, at_ns)
        elif not told and not plain.startswith((*_COMPLETING, "I")) and plain not in _UNTOLD:
            yield self._row(plain, region.start_ns, at_ns)

    def _row(
        self, operation: str, start_ns: int, end_ns: int, n_bytes: int | None = None,
        numbers: Numbers = ("", None, None, None),
    ) -> RawRecord:  # fmt: skip
        clock = DEVICE_CLOCK if self._stream else HOST_CLOCK
        return (
            None, None, "", operation, "", n_bytes, start_ns, max(start_ns, end_ns), clock, *numbers,
            self._thread, OK, self._stream,
        )  # fmt: skip

    # -- collectives ---------------------------------------------------------------------------------

    def _collective(self, event: Any, at_ns: int) -> Iterator[RawRecord]:
        group = self._group_of(event.communicator)
        seq = self._collectives[group.name]
        self._collectives[group.name] += 1
        operation = enum_name(event.collective_op)
        if operation in ("CREATE_HANDLE", "DESTROY_HANDLE"):
            operation = self._open[-1].name.removeprefix(MPI).upper()
        numbers = group.name, group.size, seq, integer(event.root)
        self._told.append(self._row(operation, at_ns, at_ns, integer(event.size_sent), numbers))
        yield from ()

    # -- messages ------------------------------------------------------------------------------------

    def _numbers(self, operation: str, event: Any) -> Numbers:
        group = self._group_of(event.communicator)
        other = integer(event.receiver if operation == "SEND" else event.sender)
        key = group.name, operation, other
        seq = self._messages[key]
        self._messages[key] += 1
        return group.name, group.size, seq, other

    def _message(self, operation: str, event: Any, at_ns: int) -> Iterator[RawRecord]:
        numbers = self._numbers(operation, event)
        self._told.append(self._row(operation, at_ns, at_ns, integer(event.msg_length), numbers))
        yield from ()

    def _begin(self, operation: str, event: Any, _: int) -> Iterator[RawRecord]:
        begun = Begun(self._open[-1].start_ns)
        if operation == "SEND":  # of one that is received all else is known at its end
            begun = begun._replace(numbers=self._numbers(operation, event), n_bytes=integer(event.msg_length))
        self._requests[event.request_id] = begun
        yield from ()

    def _end(self, operation: str, event: Any, at_ns: int) -> Iterator[RawRecord]:
        begun = self._requests.pop(event.request_id, None)
        if begun is None:
            self._left_out.add("an event of a request that was not seen to begin")
            return
        if operation == "RECV":
            begun = begun._replace(numbers=self._numbers(operation, event), n_bytes=integer(event.msg_length))
        yield self._row(f"I{operation}", begun.start_ns, at_ns, begun.n_bytes, begun.numbers)
        if self._open[-1].name.removeprefix(MPI).upper().startswith("WAIT"):
            self._told.append(self._row(WAIT, at_ns, at_ns, begun.n_bytes, begun.numbers))


def enum_name(value: Any) -> str:
    """Return the name of a value of OTF2's enumerations, which are none of Python's."""
    return str(value).rpartition(".")[2]


_TAKEN: dict[str, Callable[[Location, Any, int], Iterator[RawRecord]]] = {
    "MpiCollectiveEnd": Location._collective,
    "MpiSend": lambda at, *event: at._message("SEND", *event),
    "MpiRecv": lambda at, *event: at._message("RECV", *event),
    "MpiIsend": lambda at, *event: at._begin("SEND", *event),
    "MpiIsendComplete": lambda at, *event: at._end("SEND", *event),
    "MpiIrecvRequest": lambda at, *event: at._begin("RECV", *event),
    "MpiIrecv": lambda at, *event: at._end("RECV", *event),
}
"""What is done with an event of MPI, by its kind; those of others are not needed."""
