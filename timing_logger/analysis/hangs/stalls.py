"""What a run stood in before it ended: the ranks as they were while it stood still.

What a process does at its end, after Ctrl-C or when a peer is gone, is not what it hung in. Each sidecar
therefore keeps the longest and the latest time in which its process stood still.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from timing_logger.analysis.hangs.sidecar_state import LastWords, Standstill
from timing_logger.analysis.rows.operations import is_communication
from timing_logger.results import criteria
from timing_logger.schema.record import INFLIGHT, NS_PER_S, OK
from timing_logger.schema.sidecar import OpenCallInfo

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
    return (
        (stall.since_counter_ns + one.offset_ns) / NS_PER_S,
        (stall.until_counter_ns + one.offset_ns) / NS_PER_S,
    )


def _stall_at(one: LastWords, at_s: float) -> Standstill | None:
    """Return the standstill in which a rank was at a moment, or with which it ended shortly before."""
    for stall in (one.last_stall, one.longest_stall):
        span = _span_s(one, stall)
        if span is None or span[0] >= at_s:
            continue
        if span[1] >= at_s - (
            criteria.NOTICED_WITHIN_S if _ended_with_it(one, span[1]) else criteria.FREED_TOGETHER_S
        ):
            return stall
    return None


def _ended_with_it(one: LastWords, until_s: float) -> bool:
    seen_s = math.inf if one.updated_ns is None else one.updated_ns / NS_PER_S
    return bool(one.closed or one.killed) and seen_s < until_s + criteria.ENDED_WITHIN_S


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


def _are(rows: pd.DataFrame, calls: Iterable[OpenCallInfo]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    found = np.zeros(len(rows), np.bool_)
    for call in calls:
        if call.start_counter_ns is not None:
            near = (
                abs(rows["start_counter"].to_numpy() - call.start_counter_ns / NS_PER_S)
                < criteria.SAME_INSTANT_S
            )
            found |= near & (rows["operation"] == call.operation).to_numpy(np.bool_)
    return found
