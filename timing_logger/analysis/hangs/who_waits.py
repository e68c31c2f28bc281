"""Find which ranks wait for which when a run hangs, and which ranks are at the end of the chains."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from timing_logger.analysis.collectives.messages import find_messages
from timing_logger.analysis.hangs.open_calls import ADDED_COLUMNS, Ending, integer_or_none
from timing_logger.analysis.rows import operations
from timing_logger.analysis.rows.arrays import numbers
from timing_logger.analysis.rows.group_members import NONE, communicators, ranks_by_number
from timing_logger.analysis.rows.tables import opened
from timing_logger.results.run_end import StuckGroup, StuckMessage


def stuck_messages(ending: Ending, world_size: int | None) -> list[StuckMessage]:
    """Find the messages, probes and waits that did not end, by rank, then the longest first.

    A ``WAIT`` for an operation that is open itself is left out. So is a non-blocking send that was received,
    even if its rank has not waited for it yet.

    Args:
        ending: the end of the run.
        world_size: the number of ranks in the run; None if unknown.
    """
    rows = ending.rows
    if not rows["is_open"].any():
        return []
    frame = opened(rows.drop(columns=ADDED_COLUMNS))
    peers = ranks_by_number(frame, numbers(frame, "peer"), communicators(frame), world_size)
    matched = find_messages(frame, world_size)
    partnered = {*matched.send.tolist(), *matched.receive.tolist()}
    is_received = ~rows["is_open"].to_numpy(bool)[matched.receive]
    received = {*matched.send[is_received].tolist()}
    found = [
        _message(ending, row, int(peers[row]), has_partner=row in partnered)
        for row in np.flatnonzero(rows["is_open"]).tolist()
        if _is_told_here(rows, row) and row not in received
    ]
    return sorted(found, key=lambda one: (one.rank, -(one.since_s or 0.0)))


def _is_told_here(rows: pd.DataFrame, row: int) -> bool:
    name = rows["operation"].iloc[row]
    if operations.is_wait(name):
        return not _waits_for_an_open_call(rows, row)
    is_message = operations.is_communication(name) and not operations.is_collective(name)
    return is_message or operations.base_operation(name) in operations.PROBES


def _waits_for_an_open_call(rows: pd.DataFrame, row: int) -> bool:
    """Tell whether this row waits for another open call of its rank."""
    this = rows.iloc[row]
    same_seq = rows["seq"].isna() if np.isnan(this["seq"]) else rows["seq"] == this["seq"]
    same_call = rows["is_open"] & (rows["rank"] == this["rank"]) & (rows["group"] == this["group"]) & same_seq
    return not all(map(operations.is_wait, rows["operation"][same_call]))


def _is_waited_for(rows: pd.DataFrame, row: int) -> bool:
    """Tell whether a call of the same rank is blocked until this operation has ended."""
    this = rows.iloc[row]
    waits = rows[rows["is_open"] & (rows["rank"] == this["rank"]) & (rows["group"] == this["group"])]
    alike = waits[["seq", "peer"]].fillna(-1.0) == this[["seq", "peer"]].astype(float).fillna(-1.0)
    return bool(waits.loc[alike.all(axis=1), "operation"].map(operations.is_wait).any())


def _message(ending: Ending, row: int, peer: int, *, has_partner: bool) -> StuckMessage:
    call = ending.rows.iloc[row]
    return StuckMessage(
        rank=int(call["rank"]),
        operation=str(call["operation"]),
        group=str(call["group"]),
        seq=integer_or_none(call["seq"]),
        thread=str(call["thread"]),
        iteration=integer_or_none(call["iteration"]),
        peer=None if peer == NONE else peer,
        has_partner=has_partner,
        since_s=ending.before_the_end_s(float(call["began_s"])),
        hangs=bool(call["hangs"]),
        in_background=operations.goes_on(str(call["operation"])) and not _is_waited_for(ending.rows, row),
    )


Waits: TypeAlias = "Mapping[int, frozenset[int]]"


class Causes(NamedTuple):
    """The ranks that cause a hang.

    Attributes:
        culprits: ranks that others wait for, directly or through others, and that wait for nobody.
        circle: ranks of which each waits for the next, and the last for the first; empty if there is none.
    """

    culprits: tuple[int, ...]
    circle: tuple[int, ...]


def why_it_hangs(
    groups: Collection[StuckGroup], messages: Collection[StuckMessage], gone: Collection[int]
) -> Causes:
    """Return the ranks that cause a hang.

    An operation that is under way in the background holds up nobody: a receive may be posted in advance, for
    a message that never has to come. Such operations tell who waits for whom only if no rank is blocked in
    any call, as where a program asks them again and again whether they have ended.

    The arguments are those of :func:`who_waits`.
    """
    blocking = [
        replace(group, inside=tuple(rank for rank in group.inside if rank not in group.pending))
        for group in groups
    ]
    waited_for = [message for message in messages if not message.in_background]
    if waits := who_waits(blocking, waited_for, gone):
        return causes(waits, blocked(blocking, waited_for, gone))
    return causes(who_waits(groups, messages, gone), blocked(groups, messages, gone))


def who_waits(groups: Iterable[StuckGroup], messages: Iterable[StuckMessage], gone: Collection[int]) -> Waits:
    """Return for each rank that waits the ranks that it waits for.

    In a collective those are the ranks that never entered it. Where all have entered, they are the ranks that
    disagree with most others, or else those that are gone, or else those that have it under way but are
    blocked in no call. A rank that is gone waits for no rank.

    Args:
        groups: the collectives that did not end.
        messages: the messages that did not end.
        gone: the ranks that are gone.
    """
    found: dict[int, set[int]] = {}
    for group in groups:
        awaited = (
            set(group.missing) or set(group.odd) or (set(group.inside) & set(gone)) or set(group.unblocked)
        )
        for rank in {*group.inside, *group.failed} - awaited:
            found.setdefault(rank, set()).update(awaited)
    for message in messages:
        if message.peer is not None and message.peer != message.rank:
            found.setdefault(message.rank, set()).add(message.peer)
    return {rank: frozenset(awaited) for rank, awaited in found.items() if awaited and rank not in gone}


def blocked(
    groups: Iterable[StuckGroup], messages: Iterable[StuckMessage], gone: Collection[int]
) -> frozenset[int]:
    """Return the ranks that are in a call which does not end, whether or not it is known for whom they wait.

    The arguments are those of :func:`who_waits`.
    """
    in_groups = {
        rank for group in groups for rank in group.inside if rank not in {*group.unblocked, *group.odd}
    }
    in_messages = {message.rank for message in messages if not message.in_background}
    return frozenset((in_groups | in_messages) - set(gone))


def causes(waits: Waits, blocked_ranks: Collection[int] = ()) -> Causes:
    """Return the ends of all chains of waiting, those that most ranks wait for first.

    A circle is returned only if some rank waits in a chain without an end.

    Args:
        waits: for each rank that waits the ranks that it waits for.
        blocked_ranks: ranks that are in a call themselves, and so are no culprits.
    """
    reached = {rank: _reached(waits, rank) for rank in waits}
    ends = {end for ranks in reached.values() for end in ranks if end not in waits}
    n_waiting = {end: sum(end in ranks for ranks in reached.values()) for end in ends}
    circle = next(filter(None, (_circle(waits, rank) for rank in sorted(waits))), ())
    hopeless = {rank for rank, ranks in reached.items() if not ranks & ends}
    culprits = sorted(ends - set(blocked_ranks), key=lambda end: (-n_waiting[end], end))
    return Causes(tuple(culprits), circle if hopeless else ())


def _reached(waits: Waits, rank: int) -> set[int]:
    found: set[int] = set()
    ahead = list(waits[rank])
    while ahead:
        one = ahead.pop()
        if one not in found:
            found.add(one)
            ahead += waits.get(one, ())
    return found


def _circle(waits: Waits, rank: int) -> tuple[int, ...]:
    """Return the circle that is reached by following the least rank that each waits for; () if none is."""
    path: list[int] = []
    while rank in waits and rank not in path:
        path.append(rank)
        rank = min(waits[rank])
    return tuple(path[path.index(rank) :]) if rank in path else ()
