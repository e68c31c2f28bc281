"""Find collectives that did not end: which ranks are inside, never entered, failed, or disagree.

:mod:`timing_logger.analysis.collectives.matching` tells which rows are parts of one collective. Where
sampling leaves out the rows, the counts in the sidecars tell which ranks never entered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from timing_logger.analysis.collectives.matching import find_instances
from timing_logger.analysis.collectives.problems import Problem, find_problems
from timing_logger.analysis.hangs.open_calls import ADDED_COLUMNS, Ending, integer_or_none
from timing_logger.analysis.hangs.sidecar_state import LastWords
from timing_logger.analysis.rows.analysis import EARLIER_IN_STEP
from timing_logger.analysis.rows.arrays import Floats, dense_codes
from timing_logger.analysis.rows.group_members import all_members
from timing_logger.analysis.rows.operations import base_operation, goes_on, is_collective, is_wait
from timing_logger.analysis.rows.tables import opened
from timing_logger.reading.named_ranks import named_ranks
from timing_logger.results import criteria
from timing_logger.results.run_end import StuckGroup
from timing_logger.schema.record import DEVICE_CLOCK

_MOST_KINDS = 4


def stuck_groups(ending: Ending, world_size: int | None) -> list[StuckGroup]:
    """Find the collectives that ranks are inside, or in which ranks failed at the end.

    Args:
        ending: the end of the run.
        world_size: the number of ranks in the run; None if unknown.

    Returns:
        The collectives, those that hang first, then the longest first.
    """
    by_rows = list(_by_rows(ending, world_size))
    by_counts = list(_by_counts(ending, world_size, by_rows))
    return sorted(by_rows + by_counts, key=lambda one: (not one.hangs, -(one.since_s or 0.0), one.group))


# -- by rows -------------------------------------------------------------------------------------------


def _by_rows(ending: Ending, world_size: int | None) -> Iterable[StuckGroup]:
    rows = ending.rows
    if not len(rows):
        return
    frame = opened(rows.drop(columns=ADDED_COLUMNS))
    parts = find_instances(frame, _step_of(rows))
    if not len(parts.row):
        return
    problems = find_problems(frame, parts)
    is_open = rows["is_open"].to_numpy(np.bool_)[parts.row]
    failed = rows["failed"].to_numpy(np.bool_)[parts.row]
    for number in np.flatnonzero(np.logical_or.reduceat(is_open | failed, parts.first)).tolist():
        here = slice(parts.first[number], parts.first[number] + parts.n_parts[number])
        of_it = rows.iloc[parts.row[here]]
        if is_open[here].any() or not _went_on(rows, of_it[failed[here]]):
            yield _stuck(ending, of_it, Problem(int(problems[number])), world_size)


def _step_of(rows: pd.DataFrame) -> Floats:
    """Number the step of each row, for collectives without a number; NaN outside of any iteration."""
    step = dense_codes(rows["epoch"].to_numpy(), rows["iteration"].to_numpy()).astype(np.float64)
    return np.where(rows["iteration"].isna(), np.nan, step)


def _of_group(rows: pd.DataFrame, group: str, size: int | None) -> pd.DataFrame:
    """Return the rows of the collectives of a group."""
    same_size = rows["group_size"].isna() if size is None else rows["group_size"] == size
    of_group = rows[(rows["group"] == group) & same_size]
    found: pd.DataFrame = of_group[of_group["is_collective"]]
    return found


def _went_on(rows: pd.DataFrame, failed: pd.DataFrame) -> bool:
    """Tell whether the group met again after these ranks had failed in it, as after a handled error."""
    first = failed.iloc[0]
    later = _of_group(rows, first["group"], integer_or_none(first["group_size"]))
    ended_well = ~later["failed"] & later["ended_s"].notna()
    return bool((ended_well & (later["began_s"] > failed["ended_s"].min())).any())


def _stuck(ending: Ending, parts: pd.DataFrame, problems: Problem, world_size: int | None) -> StuckGroup:
    first = parts.sort_values("began_s", kind="stable").iloc[0]
    group, size, seq = str(first["group"]), *map(integer_or_none, first[["group_size", "seq"]])
    is_open = parts[parts["is_open"]]
    failed = {int(row["rank"]): row["status"] for _, row in parts[parts["failed"]].iterrows()}
    members, unread, n_unknown = _members(ending, group, size, world_size)
    absent = [rank for rank in members if rank not in set(parts["rank"])]
    by_counts = [rank for rank in absent if _is_inside(ending.words[rank], group, size, seq)]
    missing = tuple(rank for rank in absent if rank not in by_counts and not _has_passed(ending, rank, first))
    inside_s = {int(row["rank"]): ending.before_the_end_s(row["began_s"]) for _, row in is_open.iterrows()}
    inside_s |= {rank: _idle_before_the_end_s(ending, rank) for rank in by_counts}
    mismatch, odd = _mismatch(parts, problems)
    entered = is_open if len(is_open) else parts[parts["rank"].isin(failed)]
    entered_s = float(entered["began_s"].min())
    return StuckGroup(
        group=group,
        group_size=size,
        seq=seq,
        operation=", ".join(sorted({base_operation(name) for name in parts["operation"]})[:_MOST_KINDS]),
        iteration=integer_or_none(first["iteration"]),
        layer_name=str(first["layer_name"]),
        inside=tuple(sorted(inside_s)),
        inside_s=dict(sorted(inside_s.items())),
        missing=missing,
        silent=tuple(
            rank
            for rank in missing
            if not ending.words[rank].closed and ending.seen_s.get(rank, -math.inf) < entered_s
        ),
        unread=unread,
        unknown_ranks=n_unknown,
        failed=dict(sorted(failed.items())),
        unblocked=_unblocked(ending.rows, is_open),
        pending=_pending(ending.rows, is_open),
        since_s=ending.before_the_end_s(entered_s),
        mismatch=mismatch,
        odd=odd,
        hangs=bool(
            is_open["hangs"].any() or (failed and (missing or mismatch)) or _cannot_end(is_open, problems)
        ),
    )


def _members(
    ending: Ending, group: str, size: int | None, world_size: int | None
) -> tuple[list[int], tuple[int, ...], int]:
    """Return the group's ranks with a file, those known to have none, and the number of unknown ranks."""
    rows = ending.rows
    told = {rank for rank, one in ending.words.items() if (group, size) in one.progress}
    seen = np.array(sorted({*_of_group(rows, group, size)["rank"].tolist(), *told}), np.int64)
    if world_size is None and size == len(ending.words):
        world_size = size
    found = all_members(group, math.nan if size is None else size, seen, world_size).tolist()
    if not found and size is None and not group and world_size and 2 * len(seen) > world_size:
        found = list(range(world_size))  # timed by hand by most ranks: taken to be a group of all ranks
    members = sorted({*found, *seen.tolist()})
    n_unknown = 0 if size is None else max(0, min(size, criteria.MAX_RANKS) - len(members))
    unread = tuple(rank for rank in members if rank not in ending.words)
    return [rank for rank in members if rank in ending.words], unread, n_unknown


def _has_passed(ending: Ending, rank: int, part: pd.Series[Any]) -> bool:
    """Tell whether the rank had begun this collective, though no row says so, or a later one."""
    group, size, seq = str(part["group"]), integer_or_none(part["group_size"]), part["seq"]
    mine = _of_group(ending.rows, group, size)
    mine = mine[mine["rank"] == rank]
    if not math.isnan(seq):
        told = ending.words[rank].progress_in(group, size).issued
        return bool(told > seq or (mine["seq"] > seq).any())
    place = ["epoch", "iteration", EARLIER_IN_STEP]  # what is outside of any iteration comes before all
    at = tuple(part[place].astype(np.float64).fillna(-1.0))
    return any(row >= at for row in mine[place].fillna(-1.0).itertuples(index=False, name=None))


def _unblocked(rows: pd.DataFrame, is_open: pd.DataFrame) -> tuple[int, ...]:
    """Return the ranks that have the collective under way and are blocked in no call, while others are."""
    background = is_open["rank"][is_open["operation"].map(goes_on).astype(bool)]
    blocks = rows["operation"].map(lambda name: not goes_on(name) and (is_wait(name) or is_collective(name)))
    blocked = set(rows["rank"][rows["is_open"] & blocks.astype(bool)])
    idle = {int(rank) for rank in background} - blocked
    return tuple(sorted(idle)) if blocked & set(is_open["rank"]) else ()


def _pending(rows: pd.DataFrame, is_open: pd.DataFrame) -> tuple[int, ...]:
    """Return the ranks that have the collective under way in the background, and none of whose calls waits.

    What a device has under way holds up what is queued behind it, without a call that waits.
    """
    on_host = is_open["operation"].map(goes_on).astype(bool) & (is_open["clock"] != DEVICE_CLOCK)
    waits = rows[rows["is_open"] & rows["operation"].map(is_wait).astype(bool)]
    waited = {(int(rank), group, seq) for rank, group, seq in waits[["rank", "group", "seq"]].to_numpy()}
    parts = is_open[on_host][["rank", "group", "seq"]].to_numpy()
    return tuple(sorted(int(rank) for rank, group, seq in parts if (int(rank), group, seq) not in waited))


def _cannot_end(is_open: pd.DataFrame, problems: Problem) -> bool:
    """Tell whether ranks are in different collectives of one group under one number, at the same time."""
    differ = Problem.OPERATIONS in problems and Problem.NAME_SHARED not in problems
    return (
        differ
        and bool(is_open["seq"].notna().all())
        and is_open["operation"].map(base_operation).nunique() > 1
    )


def _mismatch(parts: pd.DataFrame, problems: Problem) -> tuple[str, tuple[int, ...]]:
    """State what the parts disagree in, and which ranks disagree with most of the others."""
    for problem, values, what, unit in (
        (Problem.OPERATIONS, parts["operation"].map(base_operation), "operations", ""),
        (Problem.SIZES, parts["message_size_bytes"], "sizes", " bytes"),
        (Problem.ROOTS, parts["peer"], "roots", ""),
    ):
        if problem in problems:
            return f"{what} differ: {_by_kind(parts, values, unit)}", _odd(parts, values)
    return "", ()


def _odd(parts: pd.DataFrame, values: pd.Series[Any]) -> tuple[int, ...]:
    known = values.dropna()
    commonest, count = known.mode().iloc[0], known.value_counts().max()
    if 2 * count <= len(known):
        return ()
    return tuple(sorted(int(rank) for rank in parts["rank"][values.notna() & (values != commonest)]))


def _by_kind(parts: pd.DataFrame, values: pd.Series[Any], unit: str) -> str:
    """List the ranks of the first few values, as ``ALLREDUCE on rank 0, BARRIER on ranks 1 and 2``."""
    kinds = [
        (f"{value:.0f}" if isinstance(value, float) else str(value), parts["rank"][values == value])
        for value in sorted(values.dropna().unique())
    ]
    told = [f"{value}{unit} on {named_ranks(ranks.tolist())}" for value, ranks in kinds[:_MOST_KINDS]]
    return ", ".join(told) + (f" and {len(kinds) - _MOST_KINDS} more" if len(kinds) > _MOST_KINDS else "")


# -- by counts -------------------------------------------------------------------------------------------


def _by_counts(ending: Ending, world_size: int | None, by_rows: Sequence[StuckGroup]) -> Iterable[StuckGroup]:
    """Find collectives that have no rows because of sampling, by the counts in the sidecars."""
    seen = {(one.group, one.group_size) for one in by_rows if one.inside}
    everything = {key for one in ending.words.values() for key in one.progress}
    for group, size in sorted(everything - seen, key=str):
        oldest = [
            counts.completed
            for one in ending.words.values()
            if _has_settled(one) and (counts := one.progress_in(group, size)).issued != counts.completed
            if not _went_past(ending, one, group, size)
        ]
        if oldest:
            yield _counted(ending, group, size, max(oldest), world_size)


def _went_past(ending: Ending, one: LastWords, group: str, size: int | None) -> bool:
    """Tell whether a later collective ended: then the open ones are requests that were never waited for."""
    mine = _of_group(ending.rows, group, size)
    ended = mine[(mine["rank"] == one.rank) & mine["ended_s"].notna()]
    return bool((ended["seq"] > one.progress[group, size].completed).any())


def _counted(ending: Ending, group: str, size: int | None, seq: int, world_size: int | None) -> StuckGroup:
    members, unread, n_unknown = _members(ending, group, size, world_size)
    inside = [rank for rank in members if _is_inside(ending.words[rank], group, size, seq)]
    issued = {rank: ending.words[rank].progress_in(group, size).issued for rank in members}
    inside_s = {rank: _idle_before_the_end_s(ending, rank) for rank in inside}
    since_s = max((age for age in inside_s.values() if age is not None), default=None)
    last = _of_group(ending.rows, group, size)
    return StuckGroup(
        group=group,
        group_size=size,
        seq=seq,
        operation=base_operation(last["operation"].iloc[-1]) if last["operation"].nunique() == 1 else "",
        inside=tuple(inside),
        inside_s=inside_s,
        missing=tuple(rank for rank in members if rank not in inside and issued[rank] <= seq),
        unread=unread,
        unknown_ranks=n_unknown,
        since_s=since_s,
        hangs=any(
            age is not None and age >= ending.words[rank].hang_after_s for rank, age in inside_s.items()
        ),
    )


def _is_inside(one: LastWords, group: str, size: int | None, seq: int | None) -> bool:
    """Tell whether the counts of a process that had come to rest say that it is in the collective."""
    counts = one.progress_in(group, size)
    return seq is not None and _has_settled(one) and counts.completed <= seq < counts.issued


def _has_settled(one: LastWords) -> bool:
    if one.closed or one.idle_s is None:
        return False
    return one.idle_s >= min(criteria.SETTLED_AFTER_S, one.hang_after_s)


def _idle_before_the_end_s(ending: Ending, rank: int) -> float | None:
    """Return the time in s from what the rank last began or recorded to the end of the run."""
    one = ending.words[rank]
    if one.idle_s is None or one.updated_ns is None:
        return None
    return ending.before_the_end_s(one.updated_ns / 1e9 - one.idle_s)
