"""Read from the sidecars of a run how each process ended, which calls were open, and what it stood still in.

Any value may be missing, as a sidecar may be of another version; those that are there have the types of
``RunInfo``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.arrays import Bools
from timing_logger.analysis.rows.files import File, sidecar_of
from timing_logger.analysis.rows.operations import is_communication
from timing_logger.reading.alignment import wall_offset_ns
from timing_logger.reading.living import ALIVE
from timing_logger.results import criteria
from timing_logger.schema.defaults import HANG_AFTER_S
from timing_logger.schema.record import INFLIGHT, NS_PER_S, OK
from timing_logger.schema.sidecar import OpenCallInfo

N_GROUPS = "n_groups"
"""The key under which a sidecar from a digest states how many groups there are, if it tells of fewer."""

_TEXTS = ("thread", "operation", "layer_name", "group")
_HEARTBEAT = ("open_calls", "groups", "last_progress_counter_ns")
"""Written by loggers that refresh while they live."""


@dataclass(frozen=True)
class Progress:
    """The progress of a rank in a group.

    Attributes:
        issued: number of collectives that the rank had begun.
        completed: number of these that were known to be over.
    """

    issued: int
    completed: int


_NONE, _PAST = Progress(0, 0), Progress(2**62, 2**62)


@dataclass(frozen=True)
class Standstill:
    """A time in which a process began and recorded nothing.

    Attributes:
        since_counter_ns, until_counter_ns: from when to when, by ``perf_counter``.
        open_calls: the calls that were open.
        progress: progress in each group, by name and size of the group.
        stack: the stack of the main thread, innermost frame first.
    """

    since_counter_ns: int
    until_counter_ns: int
    open_calls: tuple[OpenCallInfo, ...]
    progress: Mapping[tuple[str, int | None], Progress]
    stack: tuple[str, ...]


@dataclass(frozen=True)
class LastWords:
    """The last that the sidecar of one process tells.

    Attributes:
        rank, incarnation: of the process.
        closed: whether the logger of the process was closed; None if unknown.
        killed: whether the process is known to be gone, without having closed.
        updated_ns: when the sidecar was last written, in Unix time; None if unknown.
        alive_ns: when the process was seen to run, in Unix time; None if it was not looked for.
        has_heartbeat: whether the sidecar was refreshed as long as the process lived.
        offset_ns: Unix time minus ``perf_counter``; None if unknown.
        hang_after_s: the time in seconds after which an open call hangs.
        signal: the signal that came before the end, such as ``SIGTERM``; "" if none did.
        ended_by: the type of the exception that ended the program; "" if none did, or none is known.
        has_ring: whether its last sign of life is known to a fraction of a second, however it ended.
        longest_stall, last_stall: the longest and the last time in which it stood still; None without one.
        open_calls: the calls that were open.
        progress: progress in each group, by name and size of the group.
        has_further_groups: whether there are further groups, of which nothing is known here.
        progressed_counter_ns: when something was last begun or recorded, by ``perf_counter``; None if
            unknown.
        idle_stack: the stack of the main thread, innermost frame first, if it recorded nothing for long.
        host: name of the host; "" if unknown.
        not_told: what the source of an import does not tell, by the names of ``sidecar.NOT_TOLD``.
        goes_on: whether an import writes the file, and had not ended.
    """

    rank: int
    incarnation: int
    closed: bool | None = None
    killed: bool = False
    updated_ns: int | None = None
    alive_ns: int | None = None
    has_heartbeat: bool = False
    offset_ns: int | None = None
    hang_after_s: float = HANG_AFTER_S
    signal: str = ""
    ended_by: str = ""
    has_ring: bool = False
    longest_stall: Standstill | None = None
    last_stall: Standstill | None = None
    open_calls: tuple[OpenCallInfo, ...] = ()
    progress: Mapping[tuple[str, int | None], Progress] = field(default_factory=dict)
    has_further_groups: bool = False
    progressed_counter_ns: int | None = None
    idle_stack: tuple[str, ...] = ()
    host: str = ""
    not_told: frozenset[str] = frozenset()
    goes_on: bool = False

    def progress_in(self, group: str, size: int | None) -> Progress:
        """Return the progress in a group; none, if the process is in no such group.

        Where it may be in it and nothing is known of that, nobody is to be blamed: it has gone past.
        """
        return self.progress.get((group, size), _PAST if self.has_further_groups else _NONE)

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


def _words_of(file: File) -> LastWords:
    sidecar = cast("Mapping[str, Any]", sidecar_of(file))
    imported = sidecar.get("imported") or {}
    return LastWords(
        rank=int(file["rank"]),
        incarnation=int(file.get("incarnation", 1)),
        closed=sidecar.get("closed"),
        killed=sidecar.get("killed", False),
        updated_ns=sidecar.get("updated_unix_ns") or None,
        alive_ns=sidecar.get(ALIVE) if type(sidecar.get(ALIVE)) is int else None,
        has_heartbeat=any(name in sidecar for name in _HEARTBEAT),
        offset_ns=wall_offset_ns(sidecar),
        hang_after_s=_hang_after_s(sidecar.get("options", {}).get("hang_after")),
        signal=_text(sidecar.get("signal")),
        ended_by=_text(sidecar.get("ended_by")),
        has_ring=bool(sidecar.get("ring_path")),
        longest_stall=_standstill(sidecar.get("longest_stall"), sidecar),
        last_stall=_standstill(sidecar.get("last_stall"), sidecar),
        open_calls=tuple(_open_call(entry) for entry in sidecar.get("open_calls", [])),
        progress=_progress_of(sidecar),
        has_further_groups=N_GROUPS in sidecar,
        progressed_counter_ns=sidecar.get("last_progress_counter_ns"),
        idle_stack=tuple(sidecar.get("idle_stack", [])),
        host=_text(sidecar.get("host")),
        not_told=frozenset(imported.get("not_told", ())),
        goes_on=imported.get("goes_on") is True,
    )


def _hang_after_s(stated: Any) -> float:
    """Return the time that the options state, which may be of any type, or else the usual one."""
    if isinstance(stated, (int, float)) and not isinstance(stated, bool) and 0 < stated < 1e9:
        return float(stated)
    return HANG_AFTER_S


def _open_call(entry: Mapping[str, Any]) -> OpenCallInfo:
    texts = {name: _text(entry.get(name)) for name in _TEXTS}
    stated: dict[str, Any] = {name: entry.get(name) for name in OpenCallInfo._fields}
    return OpenCallInfo(**{**stated, **texts})


def _standstill(entry: Mapping[str, Any] | None, sidecar: Mapping[str, Any]) -> Standstill | None:
    """Return the time that an entry states; of a process that ended in it without closing, up to its end."""
    since_ns, until_ns = (entry or {}).get("since_counter_ns"), (entry or {}).get("until_counter_ns")
    if entry is None or since_ns is None or until_ns is None:
        return None
    offset_ns, updated_ns = wall_offset_ns(sidecar), sidecar.get("updated_unix_ns")
    goes_on = sidecar.get("closed") is False and sidecar.get("last_progress_counter_ns") == since_ns
    if goes_on and offset_ns is not None and updated_ns:
        until_ns = max(until_ns, updated_ns - offset_ns)
    calls = tuple(_open_call(call) for call in entry.get("open_calls", []))
    return Standstill(since_ns, until_ns, calls, _progress_of(entry), tuple(entry.get("stack", [])))


def _progress_of(entry: Mapping[str, Any]) -> dict[tuple[str, int | None], Progress]:
    return {
        (_text(of.get("group")), of.get("size")): Progress(of["issued"], of.get("completed", of["issued"]))
        for of in entry.get("groups", [])
        if "issued" in of
    }


def _text(value: str | None) -> str:
    """Return the text, with lone surrogates escaped as in the rows; "" for None."""
    return (value or "").encode(errors="backslashreplace").decode()


# -- what a run stood in before it ended: the ranks as they were while it stood still --------------------
# What a process does at its end, after Ctrl-C or when a peer is gone, is not what it hung in. Each sidecar
# therefore keeps the longest and the latest time in which its process stood still.


WhichStall = Callable[[LastWords], "Standstill | None"]


@dataclass(frozen=True)
class Moment:
    """The end of a standstill.

    Attributes:
        at_unix_s: when it was, in Unix time, in s.
        since_unix_s: when the rank that stood still for longest had last begun or recorded anything.
        words: what the sidecars would have said then, by rank.
        calls: of the ranks that stood still, when that ended, in Unix time in s, and the open calls.
    """

    at_unix_s: float
    since_unix_s: float
    words: Mapping[int, LastWords]
    calls: Mapping[int, tuple[float, tuple[OpenCallInfo, ...]]]


def end_of_last_stall(words: Mapping[int, LastWords]) -> Moment | None:
    """Return the end of the last time in which any rank stood still; None if none did."""
    return _moment(words, lambda one: one.last_stall, lambda since_s, until_s: until_s)


def end_of_longest_stall(words: Mapping[int, LastWords]) -> Moment | None:
    """Return the end of the longest time in which any rank stood still; None if none did."""
    return _moment(words, lambda one: one.longest_stall, lambda since_s, until_s: until_s - since_s)


def _moment(
    words: Mapping[int, LastWords], which: WhichStall, rated: Callable[[float, float], float]
) -> Moment | None:
    found = [
        (bool(stall.open_calls), rated(*span), *span)  # who was in no call may have outlived the hang
        for one in words.values()
        if (stall := which(one)) is not None and (span := _span_s(one, stall)) is not None
    ]
    if not found:
        return None
    _, _, since_s, at_s = max(found)
    then: dict[int, LastWords] = {}
    calls: dict[int, tuple[float, tuple[OpenCallInfo, ...]]] = {}
    for rank, one in words.items():
        stall = _stall_at(one, at_s)
        then[rank] = _words_then(one, stall, at_s)
        if stall is not None and (span := _span_s(one, stall)) is not None:
            calls[rank] = min(span[1], at_s), stall.open_calls
    return Moment(at_s, since_s, then, calls)


def _span_s(one: LastWords, stall: Standstill | None) -> tuple[float, float] | None:
    """Return when a standstill began and ended, in Unix time in s; None if that is not known."""
    if stall is None or one.offset_ns is None:
        return None
    since_ns, until_ns = stall.since_counter_ns + one.offset_ns, stall.until_counter_ns + one.offset_ns
    return since_ns / NS_PER_S, until_ns / NS_PER_S


def _stall_at(one: LastWords, at_s: float) -> Standstill | None:
    """Return the standstill in which a rank was at a moment, or with which it ended shortly before."""
    for stall in (one.last_stall, one.longest_stall):
        span = _span_s(one, stall)
        if span is None or span[0] >= at_s:
            continue
        seen_s = math.inf if one.updated_ns is None else one.updated_ns / NS_PER_S
        ended = bool(one.closed or one.killed) and seen_s < span[1] + criteria.ENDED_WITHIN_S
        if span[1] >= at_s - (criteria.NOTICED_WITHIN_S if ended else criteria.FREED_TOGETHER_S):
            return stall
    return None


def _words_then(one: LastWords, stall: Standstill | None, at_s: float) -> LastWords:
    at_ns = round(at_s * NS_PER_S)
    if stall is not None and one.offset_ns is not None:
        until_ns = min(stall.until_counter_ns + one.offset_ns, at_ns)
        return replace(
            one,
            closed=False,
            killed=False,
            alive_ns=None,
            updated_ns=until_ns,
            signal="",
            open_calls=stall.open_calls,
            progress=stall.progress,
            progressed_counter_ns=stall.since_counter_ns,
            idle_stack=stall.stack,
        )
    if one.updated_ns is not None and one.updated_ns > at_ns:
        return replace(
            one, closed=False, killed=False, updated_ns=at_ns, signal="", open_calls=(), idle_stack=()
        )
    return one


def went_on_after(rows: pd.DataFrame, moment: Moment) -> bool:
    """Tell whether ranks communicated well after a moment, so that the run was not ended at it."""
    later = rows[(rows["ended_s"] > moment.at_unix_s) & (rows["status"] == OK)]
    return bool(later["operation"].map(is_communication).any())


def rows_then(rows: pd.DataFrame, moment: Moment) -> pd.DataFrame:
    """Return the rows as they would have been: later ones are left out, and calls that ended later are open.

    Args:
        rows: with ``began_s`` and ``ended_s``, in Unix time, in s.
        moment: the moment.
    """
    cut = {rank: until_s for rank, (until_s, _) in moment.calls.items()}
    cut_s = rows["rank"].map(cut).fillna(moment.at_unix_s).to_numpy(np.float64)
    kept: pd.DataFrame = rows[~(rows["began_s"].to_numpy() > cut_s)].reset_index(drop=True)
    cut_s = cut_s[~(rows["began_s"].to_numpy() > cut_s)]
    was_open = kept["ended_s"].to_numpy() > cut_s
    for rank, (_, calls) in moment.calls.items():
        was_open |= (kept["rank"] == rank).to_numpy(np.bool_) & _are(kept, calls)
    kept.loc[was_open, "status"] = INFLIGHT
    kept.loc[was_open, ["end_counter", "ended_s"]] = np.nan
    return kept


def _are(rows: pd.DataFrame, calls: Iterable[OpenCallInfo]) -> Bools:
    found = np.zeros(len(rows), np.bool_)
    for call in calls:
        if call.start_counter_ns is not None:
            apart_s = abs(rows["start_counter"].to_numpy() - call.start_counter_ns / NS_PER_S)
            found |= (apart_s < criteria.SAME_INSTANT_S) & (rows["operation"] == call.operation).to_numpy(
                np.bool_
            )
    return found
