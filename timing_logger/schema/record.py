"""The schema: the fields of one timed operation, and how they are written as a line of CSV.

The columns, their order and their units are stated here, in :data:`FIELDS`, and nowhere else: whatever
writes or reads rows, in Python or C, is made from that table, or does not start if it was made from another
one. The first ten columns and their order are a contract with existing readers. New ones go to the end.

A line is always one physical line of UTF-8; ``cells.py`` makes its cells. A value that its
column cannot hold is left blank and the row's status is :data:`INVALID_VALUE`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat, zip_longest
from typing import Any, Literal, NamedTuple, TypedDict

from timing_logger.schema import cells
from timing_logger.schema.cells import LARGEST as LARGEST
from timing_logger.schema.cells import MAX_TEXT_CHARS as MAX_TEXT_CHARS
from timing_logger.schema.cells import NS_PER_MS as NS_PER_MS
from timing_logger.schema.cells import NS_PER_S as NS_PER_S
from timing_logger.schema.cells import escape_text as escape_text
from timing_logger.schema.cells import name_cell as name_cell
from timing_logger.schema.cells import operation_cell as operation_cell
from timing_logger.schema.cells import tell
from timing_logger.schema.cells import unescape_text as unescape_text

OK = "ok"
UNRESOLVED = "unresolved"
INFLIGHT = "inflight"
INVALID_VALUE = "error:InvalidValue"
INCONSISTENT_COUNTERS = "error:InconsistentCounters"
NOT_ENTERED = "error:NotEntered"
HOST_CLOCK = "host"
DEVICE_CLOCK = "device"

WAIT = "WAIT"
"""The operation of rows that state how long a thread was blocked until another operation ended."""

GC = "GC"
"""The operation of a pause of Python's garbage collector."""

COMPILE = "COMPILE"
"""The operation of a compilation by ``torch.compile``."""

GRAPH_CAPTURE = "GRAPH_CAPTURE"
"""The operation of a capture of a CUDA graph."""

IMPORT = "IMPORT"
"""The operation of an import of modules in a step."""

PAUSES = (GC, COMPILE, GRAPH_CAPTURE, IMPORT)
"""The operations that stop a thread from within, at any place: in other operations, or between them."""

MESSAGES = frozenset(
    {"SEND", "SSEND", "BSEND", "RSEND", "PSEND", "RECV", "PRECV", "SENDRECV", "SENDRECV_REPLACE"}
)
"""The point-to-point operations, which are numbered by direction and peer.

All other operations of a group share one sequence.
"""


def is_message(operation: object) -> bool:
    """Tell whether ``operation`` is the name of a point-to-point operation, nonblocking ones included."""
    return isinstance(operation, str) and operation.removeprefix("I") in MESSAGES


RawRecord = tuple[Any, ...]


class Record(NamedTuple):
    """One timed operation as the recording call leaves it: raw, unformatted and unchecked.

    The recording path builds plain tuples in this order (a named tuple costs three times as much). They hold
    whatever the caller passed until the flush thread writes the line. What a tuple lacks at its end is blank.

    Attributes:
        start_ns, end_ns: instants of ``time.perf_counter_ns``. ``end_ns`` is None if the end is not known, or
            if the duration that the caller stated is not valid. Until a device operation is resolved,
            ``start_ns`` holds its interval instead.
        stream: the device and stream; "" until a device operation is resolved, since its interval knows it.
        metadata: further values from the caller. Only a sink of JSON lines writes them.
        work: an integer or a float.
    """

    iteration: int | None
    epoch: int | None
    layer_name: str
    operation: str
    phase: str
    message_size_bytes: int | None
    start_ns: int
    end_ns: int | None
    clock: str
    group: str
    group_size: int | None
    seq: int | None
    peer: int | None
    thread: str
    status: str
    stream: str = ""
    metadata: Mapping[str, Any] | None = None
    work: float | None = None


START = Record._fields.index("start_ns")
END = Record._fields.index("end_ns")
SEQ = Record._fields.index("seq")
STATUS = Record._fields.index("status")
"""Where in a record the start stands, and then the end."""

STREAM = Record._fields.index("stream")

Kind = Literal["timestamp", "integer", "text", "milliseconds", "seconds", "amount"]
"""What a column holds. An amount is a finite number of at least 0: a float64 to whoever reads it."""


class Field(NamedTuple):
    """One column: its name, the kind of its values (which implies the unit), and its meaning.

    A column of texts, integers or amounts is also a field of :class:`Record`, which holds its values.
    """

    name: str
    kind: Kind
    meaning: str


FIELDS: tuple[Field, ...] = (
    Field("timestamp", "timestamp", "wall clock at the start, UTC, microseconds"),
    Field("iteration", "integer", "training iteration; blank outside of any"),
    Field("epoch", "integer", "training epoch; blank outside of any"),
    Field("layer_name", "text", "parameter group, bucket, or the caller's label"),
    Field("operation", "text", "upper case, base operation first: ALLREDUCE, ALLREDUCE_DENSE, WAIT"),
    Field("phase", "text", "dense, sparse, or the caller's own"),
    Field("message_size_bytes", "integer", "bytes in this rank's send buffer; of a receive, those that came"),
    Field("elapsed_ms", "milliseconds", "the duration"),
    Field("start_counter", "seconds", "start on this process's perf_counter axis"),
    Field("end_counter", "seconds", "end on the same axis; end - start is elapsed_ms"),
    Field("clock", "text", "what measured the duration: host or device"),
    Field("group", "text", "communicator or process group"),
    Field("group_size", "integer", "number of ranks in the group"),
    Field("seq", "integer", "the operation's number in its group, the same on every rank"),
    Field("peer", "integer", "the other rank of a point-to-point operation, the root of a rooted one"),
    Field("thread", "text", "name of the calling thread; in a backward pass, of the one that called that"),
    Field("status", "text", "ok, error:<type>, unresolved or inflight"),
    Field("stream", "text", "device and stream that it occupied: cuda:0/7; blank on the host, or if unknown"),
    Field("work", "amount", "what it processed: tokens, samples or elements; blank if unknown"),
)

COLUMNS: tuple[str, ...] = tuple(field.name for field in FIELDS)
HEADER: str = ",".join(COLUMNS) + "\n"

EARLIER_COLUMNS: tuple[tuple[str, ...], ...] = tuple(
    COLUMNS[:length] for length in range(COLUMNS.index("stream"), len(COLUMNS))
)
"""The columns of files written by earlier versions, the fewest first: each later one came at the end."""

TEXTS: tuple[str, ...] = tuple(field.name for field in FIELDS if field.kind == "text")
NUMBERS: tuple[str, ...] = tuple(field.name for field in FIELDS if field.kind in ("integer", "amount"))
"""The columns whose values records hold. In a slot of the native core's ring, each has its place here."""

ON_SPANS: tuple[str, ...] = tuple(sorted({*TEXTS, *NUMBERS} - {"clock", "status", "stream"}))
"""The columns that a block has before it ends."""

LAYOUT: int = zlib.crc32(repr(([field[:2] for field in FIELDS], Record._fields)).encode())
"""Differs where the columns, their kinds or the fields of a record do: of what was built from others."""

_DERIVED = frozenset({"timestamp", "elapsed_ms", "start_counter", "end_counter"})  # from start_ns and end_ns
_WITHOUT_COLUMN = frozenset({"start_ns", "end_ns", "metadata"})


def check_columns(fields: Iterable[str], recorded: Iterable[str]) -> None:
    """Raise unless records hold the values of each column that is not made of others.

    Args:
        fields: the names of the columns.
        recorded: the fields of a record.

    Raises:
        TypeError: a column has no field, or a field no column.
    """
    if unpaired := set(fields) - _DERIVED ^ set(recorded) - _WITHOUT_COLUMN:
        raise TypeError(
            f"schema/record.py: FIELDS and Record differ in {', '.join(sorted(unpaired))}. A column "
            "needs a line in each of them."
        )


check_columns(COLUMNS, Record._fields)

FURTHER: dict[str, Any] = {
    name: Record._field_defaults[name] for name in COLUMNS[COLUMNS.index("stream") + 1 :]
}
"""The columns that only a program states, those after ``stream``, and what stands there if it does not."""


class Stated(TypedDict, total=False):
    """The columns that a caller may state: arguments of ``record_mpi_operation``."""

    message_size: int | None
    layer_name: str | None
    phase: str | None
    group: str
    group_size: int | None
    seq: int | None
    peer: int | None
    work: float | None


# -- a caller's numbers -> an interval -----------------------------------------------------------


def stated_interval(
    elapsed_ms: Any, start_counter: Any, end_counter: Any, now_ns: int
) -> tuple[int, int | None, str]:
    """Convert the times that a caller states to start and end in ns, and the status of the row. Never raises.

    Args:
        elapsed_ms: the duration in ms; None to compute it from the counters.
        start_counter, end_counter: seconds of ``time.perf_counter``, or None.
        now_ns: the end of the operation in ns of ``perf_counter_ns``, if no counter states it.

    Returns:
        The start in ns, the end in ns, and the status. The end is None and the status :data:`INVALID_VALUE`
        if no valid duration can be computed. If the counters and ``elapsed_ms`` differ by more than 1 ms and
        more than 10% of the duration, the status is :data:`INCONSISTENT_COUNTERS`, and ``elapsed_ms``
        determines the end.
    """
    try:
        start_ns = None if start_counter is None else _to_ns(start_counter, 1e9)
        end_ns = None if end_counter is None else _to_ns(end_counter, 1e9)
        if elapsed_ms is not None:
            elapsed_ns = _to_ns(elapsed_ms, 1e6)
        elif start_ns is not None and end_ns is not None:
            elapsed_ns = end_ns - start_ns
        else:
            elapsed_ns = -1
        if start_ns is None:
            start_ns = max(0, (now_ns if end_ns is None else end_ns) - elapsed_ns)
    except Exception:
        return now_ns, None, INVALID_VALUE
    if elapsed_ns < 0:
        return now_ns, None, INVALID_VALUE
    disagreement_ns = 0 if end_ns is None else abs(end_ns - start_ns - elapsed_ns)
    agrees = disagreement_ns <= max(NS_PER_MS, elapsed_ns // 10)
    return start_ns, start_ns + elapsed_ns, OK if agrees else INCONSISTENT_COUNTERS


def _to_ns(value: Any, ns_per_unit: float) -> int:
    return int(value * ns_per_unit + 0.5)


# -- records -> lines --------------------------------------------------------------------------


def format_records(batch: Sequence[RawRecord], wall_offset_ns: int) -> str:
    """Return the CSV lines for ``batch``, in its order. Never raises, whatever the records hold.

    Args:
        wall_offset_ns: Unix time minus ``perf_counter_ns``, in nanoseconds.
    """
    wall_offset_ns = max(wall_offset_ns, NS_PER_S)  # a clock set to before 1970 is meaningless
    try:
        return _format_valid(batch, wall_offset_ns)
    except Exception:  # some record violates the schema: format each on its own to isolate it
        return "".join([_format_any(record, wall_offset_ns) for record in batch])


def _format_any(record: RawRecord, wall_offset_ns: int) -> str:
    try:
        return _format_valid([record], wall_offset_ns)
    except Exception:
        return _format_valid([repaired(record)], wall_offset_ns)


def _format_valid(batch: Sequence[RawRecord], wall_offset_ns: int) -> str:
    """Format records column by column, because checking a column costs a fraction of checking its cells."""
    values = dict(zip(Record._fields, zip_longest(*batch), strict=False))
    starts = values["start_ns"]
    cells.check_types(starts)
    cells.check_types(values["end_ns"])
    columns = [
        cells.timestamps(starts, wall_offset_ns),  # first: it ends, while others repeat for ever
        *(_column_cells(field, values) for field in FIELDS if field.name not in _WITH_OTHERS),
    ]
    return "\n".join(map(",".join, zip(*columns, strict=False))) + "\n"


_WITH_OTHERS = frozenset({"timestamp", "start_counter", "end_counter"})  # which elapsed_ms brings with it


def _column_cells(field: Field, values: Mapping[str, tuple[Any, ...]]) -> Iterable[str]:
    if field.name == "elapsed_ms":
        return map(cells.interval_cells, values["start_ns"], values["end_ns"])
    if field.name not in values:  # every record of the batch ends before it
        return repeat("")
    return _CELLS.get(field.name, _OF_KIND[field.kind][0])(values[field.name])


_CELLS: dict[str, Callable[[tuple[Any, ...]], Iterable[str]]] = {
    "operation": partial(cells.texts, memo=cells.operations),
    "seq": cells.distinct_integers,
}
"""How columns are written that have a way of their own."""


# -- the careful path: a record that the schema cannot hold as it is ------------------------------


def repaired(record: RawRecord) -> Record:
    """Return ``record`` with every value replaced by one that its column can hold.

    If any value had to be discarded, the status becomes :data:`INVALID_VALUE`, and the log says why. Metadata
    is left out.

    ``str()`` is never called on a caller's object: it could raise, or never return.
    """
    raw = Record(*record)
    start_ns, end_ns = cells.repaired_interval(raw.start_ns, raw.end_ns)
    others: dict[str, Any] = {}
    for field in FIELDS:
        if field.kind in _OF_KIND:
            before = getattr(raw, field.name)
            others[field.name] = after = _OF_KIND[field.kind][1](before)
            if _is_lost(before, after):
                tell(field.name, field.kind, before)
    fixed = Record(start_ns=start_ns, end_ns=end_ns, **others)
    has_lost = any(map(_is_lost, raw, fixed))
    return fixed._replace(status=INVALID_VALUE) if has_lost else fixed


def _is_lost(before: Any, after: Any) -> bool:
    return (after is None and before is not None) or (isinstance(after, str) and not isinstance(before, str))


_OF_KIND: dict[str, tuple[Callable[[tuple[Any, ...]], Iterable[str]], Callable[[Any], Any]]] = {
    "integer": (cells.integers, cells.repaired_integer),
    "text": (cells.texts, cells.repaired_text),
    "amount": (cells.amounts, cells.repaired_amount),
}
"""How values are written and repaired, by the kind of their column."""
