"""Find the calls that were open when a run ended, on one time axis for all ranks, and those that hang.

A call is open if its row (status ``inflight``) or the sidecar of its process says so: either may lack it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from timing_logger.analysis.hangs.last_rows import INTERRUPTED, has_failed
from timing_logger.analysis.hangs.sidecar_state import LastWords, Moment, rows_then
from timing_logger.analysis.rows.analysis import EARLIER_IN_STEP
from timing_logger.analysis.rows.arrays import Bools, dense_codes
from timing_logger.analysis.rows.grouping import greatest_of_each, n_earlier_alike
from timing_logger.analysis.rows.operations import is_collective
from timing_logger.results import criteria
from timing_logger.schema.record import HOST_CLOCK, INFLIGHT, NS_PER_S, UNRESOLVED
from timing_logger.schema.sidecar import OpenCallInfo

ADDED_COLUMNS = ["began_s", "ended_s", "is_open", "is_collective", "failed", "hangs"]
"""The columns of ``Ending.rows`` that those of ``last_rows`` lack."""


@dataclass(frozen=True)
class Ending:
    """The end of a run: what is last known of the newest process of each rank.

    Attributes:
        rows: as ``last_rows`` returns them, with the open calls that only sidecars tell of, and with
            ``began_s`` and ``ended_s`` (float64, Unix time in s, NaN if unknown), ``is_open``,
            ``is_collective``, ``failed`` and ``hangs``.
        words: what the sidecars say, by rank.
        seen_s: the last sign of life of each rank, in Unix time, in s.
        last_sign_s: the last sign of life of the run, in Unix time, in s; NaN if unknown.
    """

    rows: pd.DataFrame
    words: Mapping[int, LastWords]
    seen_s: Mapping[int, float]
    last_sign_s: float

    def before_the_end_s(self, instant_s: float) -> float | None:
        """Return the time in s from an instant to the last sign of life, at least 0; None if unknown."""
        age_s = self.last_sign_s - instant_s
        return max(0.0, age_s) if math.isfinite(age_s) else None


def integer_or_none(value: float | None) -> int | None:
    """Return a number of a row as an integer; None if it is unknown."""
    return None if value is None or math.isnan(value) else int(value)


def ending_of(rows: pd.DataFrame, words: Mapping[int, LastWords], moment: Moment | None = None) -> Ending:
    """Combine what rows and sidecars say of the end of a run.

    Args:
        rows: the rows of all processes, as ``last_rows`` returned them.
        words: what the sidecars say, by rank.
        moment: an earlier moment, with what the sidecars said then, to find out how the run stood at it.
    """
    words = words if moment is None else moment.words
    rows = _of_newest(rows, words)
    everyone = {**{rank: LastWords(rank, 1) for rank in rows["rank"].unique().tolist()}, **words}
    rows = _with_told_calls(rows, everyone)
    rows = _in_unix_time(rows, everyone)
    rows = rows if moment is None else rows_then(rows, moment)
    seen_s = _last_signs_s(rows, everyone)
    alive_s = [one.alive_ns / NS_PER_S for one in everyone.values() if one.alive_ns is not None]
    last_sign_s = max([*seen_s.values(), *alive_s], default=math.nan)
    is_open = (rows["status"] == INFLIGHT).to_numpy(np.bool_)
    closed = rows["rank"].isin([rank for rank, one in everyone.items() if one.closed]).to_numpy(np.bool_)
    # A process that closed its log is in no call any more, but it was in this one.
    rows.loc[is_open & closed, "status"] = UNRESOLVED
    rows["is_open"] = is_open & ~closed
    rows["is_collective"] = _are_collective(rows)
    rows["failed"] = _failed(rows, everyone, seen_s)
    rows["hangs"] = False
    for rank, mine in rows_by_rank(rows[rows["rank"].isin(rows["rank"][rows["is_open"]])]).items():
        for i in mine.index[mine["is_open"]]:
            call, one = mine.loc[i], everyone[rank]
            is_old = bool(last_sign_s - call["began_s"] >= one.hang_after_s)
            rows.loc[i, "hangs"] = is_old and not _goes_on_beside(mine, call, one, last_sign_s)
    return Ending(rows, dict(sorted(everyone.items())), seen_s, last_sign_s)


def _are_collective(rows: pd.DataFrame) -> Bools:
    """Tell of each row whether it is of a collective, asking once for each name."""
    are = {name: is_collective(name) for name in rows["operation"].unique().tolist()}
    return rows["operation"].map(are).to_numpy(np.bool_)


def rows_by_rank(rows: pd.DataFrame) -> dict[int, pd.DataFrame]:
    """Return the rows of each rank that has any, under their old index."""
    return {int(str(rank)): of_rank for rank, of_rank in rows.groupby("rank")}


# -- which rows ------------------------------------------------------------------------------------------


def _of_newest(rows: pd.DataFrame, words: Mapping[int, LastWords]) -> pd.DataFrame:
    """Keep the rows of each rank's newest process, and only the later ones of a group created again."""
    newest: pd.Series[int] = rows.groupby("rank")["incarnation"].transform("max")
    stated = rows["rank"].map({rank: one.incarnation for rank, one in words.items()}).fillna(0)
    kept = rows[rows["incarnation"] >= np.maximum(newest, stated)].reset_index(drop=True)
    found: pd.DataFrame = kept[~_is_of_earlier_life(kept)].reset_index(drop=True)
    return found


def _is_of_earlier_life(rows: pd.DataFrame) -> Bools:
    """Tell for each row whether its group was later created again under its old name, in the same process."""
    collective = _are_collective(rows) & rows["seq"].notna().to_numpy()
    row = np.flatnonzero(collective)
    group, _ = pd.factorize(rows["group"].to_numpy()[row])
    key = dense_codes(rows["rank"].to_numpy()[row], group, rows["group_size"].to_numpy()[row])
    seq = rows["seq"].to_numpy()[row]
    order = np.lexsort((rows["start_counter"].to_numpy()[row], key))
    row, key, seq = row[order], key[order], seq[order]
    fell_by = -np.diff(seq, prepend=np.nan)
    is_repeated = n_earlier_alike(dense_codes(key, seq), np.arange(len(key), dtype=np.float64)) > 0
    begins_again = (fell_by > criteria.GROUP_RESTART_CALLS) | ((fell_by >= 0) & is_repeated)
    life = np.cumsum(begins_again & (np.diff(key, prepend=-1) == 0))
    earlier = np.zeros(len(rows), np.bool_)
    earlier[row] = life < greatest_of_each(life, key, key.max(initial=-1) + 1)[key]
    return earlier


def _with_told_calls(rows: pd.DataFrame, words: Mapping[int, LastWords]) -> pd.DataFrame:
    told, telling = [], [one for one in words.values() if one.open_calls]
    of_rank, none = rows_by_rank(rows[rows["rank"].isin([one.rank for one in telling])]), rows[:0]
    for one in telling:
        mine = of_rank.get(one.rank, none)
        told += [_row_of(call, one, mine) for call in one.open_calls if not _has_row(mine, call)]
    if not told:
        return rows
    added = pd.DataFrame(told, columns=list(rows.columns)).astype(
        {name: rows[name].dtype for name in ("rank", "incarnation", EARLIER_IN_STEP)}
        | {name: np.float64 for name in rows.columns if rows[name].dtype == np.float64}
    )
    found: pd.DataFrame = pd.concat([rows, added], ignore_index=True) if len(rows) else added
    return found


def _has_row(rows: pd.DataFrame, call: OpenCallInfo) -> bool:
    """Tell whether a row is of this call, even a row that tells its end, written after the sidecar."""
    start, seq, peer = (rows[name].to_numpy() for name in ("start_counter", "seq", "peer"))
    alike = (rows["operation"].to_numpy() == call.operation) & (rows["group"].to_numpy() == call.group)
    if call.start_counter_ns is not None:
        apart_s = abs(start - call.start_counter_ns / NS_PER_S)
        if (alike & (apart_s < criteria.SAME_INSTANT_S)).any():
            return True
    if call.seq is None:
        return False
    same_peer = np.isnan(peer) if call.peer is None else peer == call.peer
    return bool((alike & (seq == call.seq) & same_peer).any())


def _row_of(call: OpenCallInfo, words: LastWords, mine: pd.DataFrame) -> dict[str, object]:
    blank = math.nan
    numbers = {
        name: blank if value is None else float(value)
        for name, value in call._asdict().items()
        if name not in ("thread", "operation", "layer_name", "group", "start_counter_ns")
    }
    start_ns = call.start_counter_ns
    return {
        "rank": words.rank, "incarnation": words.incarnation, "thread": call.thread,
        "operation": call.operation, "layer_name": call.layer_name, "group": call.group, "status": INFLIGHT,
        "clock": HOST_CLOCK, **numbers, "start_counter": blank if start_ns is None else start_ns / NS_PER_S,
        "end_counter": blank, EARLIER_IN_STEP: _earlier(call, mine),
    }  # fmt: skip


def _earlier(call: OpenCallInfo, mine: pd.DataFrame) -> int:
    """Count the collectives without a number that the call's group had begun before it in its step."""
    if call.seq is not None or not is_collective(call.operation):
        return 0
    alike = mine["seq"].isna() & (mine["group"] == call.group) & mine["operation"].map(is_collective)
    for name in ("group_size", "iteration", "epoch"):
        stated = getattr(call, name)
        alike &= mine[name].isna() if stated is None else mine[name] == stated
    return int(mine.loc[alike.astype(bool), EARLIER_IN_STEP].max()) + 1 if alike.any() else 0


# -- when ------------------------------------------------------------------------------------------------


def _in_unix_time(rows: pd.DataFrame, words: Mapping[int, LastWords]) -> pd.DataFrame:
    """Add ``began_s`` and ``ended_s`` to the rows.

    A rank whose sidecar does not map its clock is taken to have the median offset of the others. If no
    sidecar maps a clock, counters are taken to be on one axis.
    """
    known_ns = {rank: one.offset_ns for rank, one in words.items() if one.offset_ns is not None}
    default_ns = median(known_ns.values()) if known_ns else 0
    offset_s = {rank: known_ns.get(rank, default_ns) / NS_PER_S for rank in words}
    of_row = rows["rank"].map(offset_s).astype(np.float64)
    placed: pd.DataFrame = rows.assign(
        began_s=rows["start_counter"] + of_row, ended_s=rows["end_counter"] + of_row
    )
    return placed


def _last_signs_s(rows: pd.DataFrame, words: Mapping[int, LastWords]) -> dict[int, float]:
    """Return the last sign of life of each rank of which any is known.

    The times of sidecars count only where some clock is mapped to Unix time.
    """
    is_mapped = any(one.offset_ns is not None for one in words.values())
    found: dict[int, float] = {}
    latest = rows.groupby("rank")[["began_s", "ended_s"]].max().max(axis=1)
    for rank, one in words.items():
        latest_s = math.nan if "instants" in one.not_told else float(latest.get(rank, math.nan))
        instants = [] if math.isnan(latest_s) else [latest_s]
        if is_mapped and one.updated_ns is not None:
            instants.append(one.updated_ns / NS_PER_S)
        if instants:
            found[rank] = max(instants)
    return found


# -- which of them hang ------------------------------------------------------------------------------------


def _failed(
    rows: pd.DataFrame, words: Mapping[int, LastWords], seen_s: Mapping[int, float]
) -> pd.Series[bool]:
    """Tell for each row whether its call raised of itself.

    An interrupt, and an error because another rank had been interrupted before, or killed in a call, count
    only if they put an end to a hang. An error because another rank died in its own code counts: it tells
    who missed that rank.
    """
    hang_after_s = rows["rank"].map({rank: one.hang_after_s for rank, one in words.items()})
    lasted = rows["ended_s"] - rows["began_s"] >= hang_after_s.astype(np.float64)
    broken_off = rows["status"].isin(INTERRUPTED)
    for rank, one in words.items():
        left_s = _left_by_signal_s(one, seen_s.get(rank, math.inf))
        if left_s < math.inf:  # of few ranks, and there may be thousands
            broken_off |= (rows["rank"] != rank) & (rows["ended_s"] >= left_s)
    return rows["status"].map(has_failed).astype(bool) & (~broken_off | lasted)


def _left_by_signal_s(one: LastWords, seen_s: float) -> float:
    """Return when, in Unix time in s, a rank was ended by a signal at the latest; infinity if it was not.

    Of a process that was killed in a call the last sign of life tells, if that is exact: it might have been
    killed because another rank had failed.
    """
    if one.closed and (one.signal or "KeyboardInterrupt" in one.ended_by):
        return seen_s - criteria.CLOSED_WITHIN_S
    return seen_s if one.killed and one.has_ring and one.open_calls else math.inf


def _goes_on_beside(mine: pd.DataFrame, call: pd.Series[Any], one: LastWords, last_sign_s: float) -> bool:
    """Tell whether the process trains on in another thread: a control thread may sit in a receive forever.

    It does if, long after the call began and not long ago, a collective ended or a later iteration was begun.
    Where its rows say nothing, since sampling leaves them out, the time at which it last began or recorded
    something tells.
    """
    began_s, ended_s, iteration = (mine[name].to_numpy() for name in ("began_s", "ended_s", "iteration"))
    since = ~mine["is_open"].to_numpy() & (began_s > call["began_s"])
    recently_s = last_sign_s - one.hang_after_s
    if not since.any():
        idle_s, last_s = one.idle_s, (one.updated_ns or 0) / NS_PER_S
        return idle_s is not None and last_s - idle_s > max(recently_s, call["began_s"] + one.hang_after_s)
    long_after = since & (ended_s > max(call["began_s"] + one.hang_after_s, recently_s))
    went_on = (iteration > call["iteration"]) | mine["is_collective"].to_numpy()
    return bool((long_after & went_on).any())
