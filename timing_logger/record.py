"""The schema: the fields of one timed operation, and how they are written as a line of CSV.

The columns, their order and their units are stated here; the writers in C (``csrc``) follow. The first ten
columns and their order are a contract with existing readers.

A line is always one physical line of UTF-8. Text that could break a line or run as a formula is escaped with
backslashes (:func:`escape_text`), reversibly (:func:`unescape_text`). A value that its column cannot hold is
left blank and the row's status is :data:`INVALID_VALUE`.
"""

from __future__ import annotations

import numbers
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from itertools import repeat
from typing import Any, Literal, NamedTuple

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

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

MESSAGES = frozenset(
    {"SEND", "SSEND", "BSEND", "RSEND", "PSEND", "RECV", "PRECV", "SENDRECV", "SENDRECV_REPLACE"}
)
"""The point-to-point operations, which are numbered by direction and peer.

All other operations of a group share one sequence.
"""


def is_message(operation: object) -> bool:
    """Return whether ``operation`` is the name of a point-to-point operation, nonblocking ones included."""
    return isinstance(operation, str) and operation.removeprefix("I") in MESSAGES


MAX_TEXT_CHARS = 1024
"""Longer names are cut to this length, the last character being an ellipsis."""

LARGEST = 2**53 - 1
"""The largest magnitude of an integer that analyses use: a float64 cannot tell larger ones apart."""

RawRecord = tuple[Any, ...]

_MAX_INT = 2**63 - 1
_MAX_INSTANT_NS = 2**62  # 146 years after the machine booted


class Record(NamedTuple):
    """One timed operation as the recording call leaves it: raw, unformatted and unchecked.

    The recording path builds plain tuples in this order (a named tuple costs three times as much). They hold
    whatever the caller passed until the flush thread writes the line.

    Attributes:
        start_ns, end_ns: instants of ``time.perf_counter_ns``. ``end_ns`` is None if the end is not known, or
            if the duration that the caller stated is not valid. Until a device operation is resolved,
            ``start_ns`` holds its interval instead.
        stream: the device and stream; "" until a device operation is resolved, since its interval knows it.
        metadata: further values from the caller. Only a sink of JSON lines writes them.
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


START = Record._fields.index("start_ns")
END = Record._fields.index("end_ns")
SEQ = Record._fields.index("seq")
STATUS = Record._fields.index("status")
"""Where in a record the start stands, and then the end."""

STREAM = Record._fields.index("stream")

Kind = Literal["timestamp", "integer", "text", "milliseconds", "seconds"]


class Field(NamedTuple):
    """One column: its name, the kind of its values (which implies the unit), and its meaning."""

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
)

COLUMNS: tuple[str, ...] = tuple(field.name for field in FIELDS)
HEADER: str = ",".join(COLUMNS) + "\n"

EARLIER_COLUMNS: tuple[str, ...] = COLUMNS[: COLUMNS.index("stream")]
"""The columns of files written by earlier versions of this logger, which did not record the stream."""

# -- text ------------------------------------------------------------------------------------

# Invisible characters: a name that contains some could pass for another one, and overrides of the writing
# direction reverse whatever is printed after them. These are Unicode's format characters and blank fillers.
_INVISIBLE = (
    "\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Control characters, line separators and lone surrogates would break a line or its encoding; a
# leading = + - @ is run by spreadsheets; a backslash is the escape itself.
_UNSAFE = re.compile(f"[\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{_INVISIBLE}]|^[=+\\-@]")
_ESCAPED = re.compile(r"\\(?:u([0-9a-f]{4})|U(00(?:0[0-9a-f]|10)[0-9a-f]{4})|(.))", re.DOTALL)
_NEEDS_QUOTES = re.compile('[,"]')


def escape_text(text: str) -> str:
    r"""Escape ``text`` so that it fits on one line: ``\n`` becomes ``\u000a``, ``\`` doubles."""
    return _UNSAFE.sub(_escape_character, text)


def _escape_character(match: re.Match[str]) -> str:
    character = match.group()
    if character in "\\=+-@":
        return "\\" + character
    return f"\\u{ord(character):04x}" if ord(character) < 2**16 else f"\\U{ord(character):08x}"


def unescape_text(text: str) -> str:
    """Undo :func:`escape_text`."""
    return _ESCAPED.sub(lambda m: chr(int(m[1] or m[2], 16)) if m[1] or m[2] else m[3], text)


def _quoted(text: str) -> str:
    text = escape_text(text)
    return '"' + text.replace('"', '""') + '"' if _NEEDS_QUOTES.search(text) else text


class _TextColumn(dict[str, str]):
    """A cache from names to their CSV cells: a run has few names and millions of rows."""

    MAX_NAMES = 4096

    def __init__(self, normalize: Callable[[str], str] = str) -> None:
        super().__init__()
        self._normalize = normalize

    def __missing__(self, value: Any) -> str:
        if type(value) is not str:
            raise TypeError("not a name")  # the careful path takes this record
        if len(value) > MAX_TEXT_CHARS:
            return _quoted(self._normalize(value[: MAX_TEXT_CHARS - 1] + "…"))
        if len(self) >= self.MAX_NAMES:
            self.clear()
        cell = self[value] = _quoted(self._normalize(value))
        return cell


_names = _TextColumn()
_operations = _TextColumn(str.upper)


def name_cell(name: str) -> str:
    """Return the CSV cell of a text: escaped, and quoted where necessary."""
    return _names[name]


def operation_cell(operation: str) -> str:
    """Return the CSV cell of an operation's name."""
    return _operations[operation]


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


class _WholeSeconds(dict[str, str]):
    """A cache from Unix seconds to ``2026-02-06T14:30:45``: consecutive rows mostly share their second."""

    def __missing__(self, unix_s: str) -> str:
        self.clear()
        text = datetime.fromtimestamp(int(unix_s), timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
        self[unix_s] = text
        return text


_whole_seconds = _WholeSeconds()


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
    (iteration, epoch, layer_name, operation, phase, size, start, end, clock,
     group, group_size, seq, peer, thread, status, stream, _) = zip(*batch, strict=True)  # fmt: skip
    _check_types(start)
    _check_types(end)
    rows = zip(
        start, map(_interval_cells, start, end), _integers(iteration), _integers(epoch),
        _texts(layer_name), _texts(operation, _operations), _texts(phase), _integers(size),
        _texts(clock), _texts(group), _integers(group_size), _distinct_integers(seq),
        _integers(peer), _texts(thread), _texts(status), _texts(stream), strict=False,  # some repeat for ever
    )  # fmt: skip
    whole_s = _whole_seconds
    return "".join([
        f"{whole_s[(unix := str(s + wall_offset_ns))[:-9]]}.{unix[-9:-3]},"
        f"{it},{ep},{layer},{op},{ph},{nbytes},{interval},{ck},{gr},{gs},{sq},{pr},{th},{st},{on}\n"
        for s, interval, it, ep, layer, op, ph, nbytes, ck, gr, gs, sq, pr, th, st, on in rows
    ])  # fmt: skip


def _texts(column: tuple[Any, ...], memo: _TextColumn = _names) -> Iterable[str]:
    first = column[0]
    if column.count(first) == len(column):
        return repeat(memo[first])
    return map(memo.__getitem__, column)


def _interval_cells(start_ns: int, end_ns: int | None) -> str:
    """Return the cells of elapsed_ms, start_counter and end_counter; without an end only the start is filled.

    The decimal point is inserted between digits: as floats, seconds lose nanoseconds after 52 days of uptime.
    """
    start = str(start_ns) if start_ns >= NS_PER_S else str(start_ns).zfill(10)
    if end_ns is None:
        return f",{start[:-9]}.{start[-9:]},"
    if not 0 <= start_ns <= end_ns <= _MAX_INSTANT_NS:
        raise ValueError("not an interval")
    end = str(end_ns) if end_ns >= NS_PER_S else str(end_ns).zfill(10)
    elapsed = str(end_ns - start_ns).zfill(7)
    return f"{elapsed[:-6]}.{elapsed[-6:]},{start[:-9]}.{start[-9:]},{end[:-9]}.{end[-9:]}"


class _IntegerCells(dict[Any, str]):
    """A cache from integers to their CSV cells, for columns whose values repeat."""

    MAX_VALUES = 4096

    def __missing__(self, value: int | None) -> str:
        if len(self) >= self.MAX_VALUES:
            self.clear()
        cell = self[value] = _integer_cell(value)
        return cell


_integer_cells = _IntegerCells()


def _integer_cell(value: int | None) -> str:
    if value is None:
        return ""
    if not -_MAX_INT <= value <= _MAX_INT:
        raise ValueError("more than 64 bits")
    return str(value)


def _integers(column: tuple[Any, ...]) -> Iterable[str]:
    _check_types(column)
    return map(_integer_cells.__getitem__, column)


def _distinct_integers(column: tuple[Any, ...]) -> Iterable[str]:
    """Return the cells of an integer column whose values seldom repeat, so that a cache would not help."""
    _check_types(column)
    if None in column:
        return map(_integer_cell, column)
    if min(column) < -_MAX_INT or max(column) > _MAX_INT:
        raise ValueError("more than 64 bits")
    return map(str, column)


def _check_types(column: tuple[Any, ...]) -> None:
    if not set(map(type, column)) <= {int, type(None)}:  # the cache would return the cell of 1 for True
        raise TypeError("not an integer")


# -- the careful path: a record that the schema cannot hold as it is ------------------------------


def repaired(record: RawRecord) -> Record:
    """Return ``record`` with every value replaced by one that its column can hold.

    If any value had to be discarded, the status becomes :data:`INVALID_VALUE`. Metadata is left out.

    ``str()`` is never called on a caller's object: it could raise, or never return.
    """
    raw = Record(*record)
    start_ns, end_ns = _repaired_interval(raw.start_ns, raw.end_ns)
    others: dict[str, Any] = {
        field.name: _REPAIRS[field.kind](getattr(raw, field.name))
        for field in FIELDS
        if field.kind in _REPAIRS
    }
    fixed = Record(start_ns=start_ns, end_ns=end_ns, **others)
    return fixed._replace(status=INVALID_VALUE) if _lost_a_value(raw, fixed) else fixed


def _lost_a_value(raw: Record, fixed: Record) -> bool:
    return any(
        (after is None and before is not None) or (isinstance(after, str) and not isinstance(before, str))
        for before, after in zip(raw, fixed, strict=True)
    )


def _repaired_integer(value: Any) -> int | None:
    """Return a Python or NumPy integer as an int if it fits the column; None for any other value.

    Bools and floats are not integers here.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        return None
    try:
        number = int(value)
    except Exception:
        return None
    return number if -_MAX_INT <= number <= _MAX_INT else None


def _repaired_text(value: Any) -> str:
    if isinstance(value, str):
        return str.__add__("", value)  # a subclass, such as an enum of strings, becomes a plain str
    return "" if value is None else f"<{type(value).__name__}>"


def _repaired_interval(start_ns: Any, end_ns: Any) -> tuple[int, int | None]:
    start, end = _repaired_integer(start_ns), _repaired_integer(end_ns)
    if start is None or not 0 <= start <= _MAX_INSTANT_NS:
        return 0, None
    return start, end if end is not None and start <= end <= _MAX_INSTANT_NS else None


_REPAIRS: dict[str, Callable[[Any], Any]] = {"integer": _repaired_integer, "text": _repaired_text}
"""How a value is repaired, by the kind of its column."""
