"""Find which ranks wait for which when a run hangs, and which ranks are at the end of the chains."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from timing_logger.results.run_end import StuckGroup, StuckMessage

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
    blocking = [_without_pending(group) for group in groups]
    waited_for = [message for message in messages if not message.in_background]
    if waits := who_waits(blocking, waited_for, gone):
        return causes(waits, blocked(blocking, waited_for, gone))
    return causes(who_waits(groups, messages, gone), blocked(groups, messages, gone))


def _without_pending(group: StuckGroup) -> StuckGroup:
    return replace(group, inside=tuple(rank for rank in group.inside if rank not in group.pending))


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
