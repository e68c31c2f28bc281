"""Which ranks of a run in progress have figures of their own, where there are many.

A dashboard keeps a series for each rank that it ever saw, so the choice is steady: a rank that is shown stays
until it is clearly no longer among the worst, and differences below a percent do not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timing_logger.live.snapshot import RankNow, Snapshot

MOST = 16
"""The most ranks with figures of their own: as many as a chart can show lines for, and a server keeps."""

_STAYS_WITHIN = 2 * MOST
_UNKNOWN = 2.0  # no share is that large, so that ranks of which nothing is known come last


class WorstRanks:
    """Chooses the ranks to show, look by look."""

    def __init__(self) -> None:
        self._shown: frozenset[int] = frozenset()

    def of(self, snapshot: Snapshot) -> list[RankNow]:
        """Return at most :data:`MOST` ranks in ascending order.

        First come those that the verdict or the end of the run names, then those that wait least themselves:
        the others wait for them.
        """
        worst = _worst_first(snapshot)
        named = set(_named(snapshot))
        shown = [now for now in worst[:_STAYS_WITHIN] if now.rank in self._shown]
        wanted = chain([now for now in worst if now.rank in named], shown, worst)
        chosen = list({now.rank: now for now in wanted}.values())[:MOST]
        self._shown = frozenset(now.rank for now in chosen)
        return sorted(chosen)


def named_by(snapshot: Snapshot) -> frozenset[int]:
    """Return the ranks that the verdict names, or that the others wait for in a hang, or that are gone."""
    end = snapshot.end
    return frozenset({*snapshot.verdict.ranks_to_look_at, *end.culprits, *end.circle, *end.gone})


def _worst_first(snapshot: Snapshot) -> list[RankNow]:
    place = {rank: at for at, rank in enumerate(dict.fromkeys(_named(snapshot)))}
    return sorted(
        snapshot.ranks, key=lambda now: (place.get(now.rank, len(place)), now.closed, _waited(now), now.rank)
    )


def _named(snapshot: Snapshot) -> Iterator[int]:
    """Yield the ranks to look at, the most certain first; some more than once."""
    verdict, end = snapshot.verdict, snapshot.end
    yield from chain(end.culprits, end.circle, verdict.ranks_to_look_at, end.gone)
    yield from chain(verdict.waited_for, verdict.recurring_for)
    yield from chain.from_iterable(suspect.ranks for suspect in verdict.suspects)


def _waited(now: RankNow) -> float:
    return round(now.waited_share, 2) if now.waited_share == now.waited_share else _UNKNOWN
