"""Read from the sidecars of a run which processes closed, when each was alive, and which calls were open.

Every value is checked before it is used: a sidecar may be of another version, or damaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from timing_logger.analysis.files import File
from timing_logger.reading.alignment import wall_offset_ns
from timing_logger.record import NS_PER_S

HANG_AFTER_S = 60.0
"""A call that is open for longer than this hangs, unless the sidecar's options state another time."""

MOST_RANKS = 2**24
_INT64 = 2**63
_TEXTS = ("thread", "operation", "layer_name", "group")
_INTEGERS = ("iteration", "epoch", "group_size", "seq", "peer", "message_size_bytes", "start_counter_ns")
_HEARTBEAT = (
    "open_calls",
    "groups",
    "last_progress_counter_ns",
)  # written by loggers that refresh while they live


@dataclass(frozen=True)
class Progress:
    """The progress of a rank in a group.

    Attributes:
        issued: number of collectives that the rank had begun.
        completed: number of these that were known to be over.
    """

    issued: int
    completed: int


@dataclass(frozen=True)
class OpenCall:
    """A call that was open according to a sidecar; see ``record.FIELDS`` for the fields."""

    thread: str
    operation: str
    layer_name: str
    group: str
    iteration: int | None
    epoch: int | None
    group_size: int | None
    seq: int | None
    peer: int | None
    message_size_bytes: int | None
    start_counter_ns: int | None


@dataclass(frozen=True)
class LastWords:
    """The last that the sidecar of one process tells.

    Attributes:
        rank, incarnation: of the process.
        closed: whether the logger of the process was closed; None if unknown.
        updated_ns: when the sidecar was last written, in Unix time; None if unknown.
        has_heartbeat: whether the sidecar was refreshed as long as the process lived.
        offset_ns: Unix time minus ``perf_counter``; None if unknown.
        hang_after_s: the time in seconds after which an open call hangs.
        signal: the signal that came before the end, such as ``SIGTERM``; "" if none did.
        open_calls: the calls that were open.
        progress: progress in each group, by name and size of the group.
        progressed_counter_ns: when something was last begun or recorded, by ``perf_counter``; None if
            unknown.
        idle_stack: the stack of the main thread, innermost frame first, if it recorded nothing for long.
        host: name of the host; "" if unknown.
    """

    rank: int
    incarnation: int
    closed: bool | None = None
    updated_ns: int | None = None
    has_heartbeat: bool = False
    offset_ns: int | None = None
    hang_after_s: float = HANG_AFTER_S
    signal: str = ""
    open_calls: tuple[OpenCall, ...] = ()
    progress: Mapping[tuple[str, int | None], Progress] = field(default_factory=dict)
    progressed_counter_ns: int | None = None
    idle_stack: tuple[str, ...] = ()
    host: str = ""

    @property
    def idle_s(self) -> float | None:
        """The time in s from the last call begun or recorded to the last sidecar update; None if unknown."""
        if self.progressed_counter_ns is None or self.updated_ns is None or self.offset_ns is None:
            return None
        return (self.updated_ns - self.offset_ns - self.progressed_counter_ns) / NS_PER_S


def last_words(files: Iterable[File]) -> dict[int, LastWords]:
    """Return the last words of the newest process of each rank, by rank, ascending.

    Args:
        files: ``attrs["files"]`` of ``read_timings``.
    """
    found: dict[int, LastWords] = {}
    for file in files:
        words = _words_of(file)
        if words.rank not in found or words.incarnation > found[words.rank].incarnation:
            found[words.rank] = words
    return dict(sorted(found.items()))


def stated_world_size_of(files: Iterable[File]) -> int | None:
    """Return the number of ranks in the run; None if no sidecar states it, or they disagree.

    Args:
        files: ``attrs["files"]`` of ``read_timings``.
    """
    stated = {_integer(_sidecar(file).get("world_size")) for file in files} - {None}
    size = stated.pop() if len(stated) == 1 else None
    return size if size is not None and 0 < size <= MOST_RANKS else None


def _sidecar(file: File) -> Mapping[str, object]:
    sidecar: object = file.get("sidecar")
    return sidecar if isinstance(sidecar, dict) else {}


def _words_of(file: File) -> LastWords:
    sidecar = _sidecar(file)
    closed, options = sidecar.get("closed"), sidecar.get("options")
    updated_ns = _integer(sidecar.get("updated_unix_ns"))
    return LastWords(
        rank=int(file["rank"]),
        incarnation=int(file.get("incarnation", 1)),
        closed=closed if isinstance(closed, bool) else None,
        updated_ns=updated_ns if updated_ns and updated_ns > 0 else None,
        has_heartbeat=any(name in sidecar for name in _HEARTBEAT),
        offset_ns=wall_offset_ns(sidecar),
        hang_after_s=_hang_after_s(options),
        signal=_text(sidecar.get("signal")),
        open_calls=tuple(_open_call(entry) for entry in _objects(sidecar.get("open_calls"))),
        progress=dict(filter(None, map(_progress, _objects(sidecar.get("groups"))))),
        progressed_counter_ns=_integer(sidecar.get("last_progress_counter_ns")),
        idle_stack=tuple(_texts(sidecar.get("idle_stack"))),
        host=_text(sidecar.get("host")),
    )


def _hang_after_s(options: object) -> float:
    stated = options.get("hang_after") if isinstance(options, dict) else None
    if isinstance(stated, (int, float)) and not isinstance(stated, bool) and 0 < stated < 1e9:
        return float(stated)
    return HANG_AFTER_S


def _open_call(entry: Mapping[str, object]) -> OpenCall:
    texts = {name: _text(entry.get(name)) for name in _TEXTS}
    return OpenCall(**texts, **{name: _integer(entry.get(name)) for name in _INTEGERS})  # type: ignore[arg-type]


def _progress(entry: Mapping[str, object]) -> tuple[tuple[str, int | None], Progress] | None:
    issued, completed = _integer(entry.get("issued")), _integer(entry.get("completed"))
    if issued is None or issued < 0:
        return None
    return (_text(entry.get("group")), _integer(entry.get("size"))), Progress(
        issued, issued if completed is None else completed
    )


def _objects(value: object) -> Sequence[Mapping[str, object]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _texts(value: object) -> Sequence[str]:
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []


def _text(value: object) -> str:
    """Return the value if it is text, with lone surrogates escaped as in the rows; else ""."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else ""


def _integer(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if -_INT64 <= value < _INT64 else None
