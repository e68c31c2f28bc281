"""The figures of a run in progress: a bounded list, as long for ten thousand ranks as for sixteen.

Whoever keeps them, keeps each series for weeks, and pays by the series: of many ranks the worst have figures
of their own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from timing_logger.live.series import SERIES, SeenJob, Series

if TYPE_CHECKING:
    from timing_logger.engine.changes import Change
    from timing_logger.live.watcher import RankNow, Snapshot

MOST_OF_JOB = 50
"""The most figures at a time of a job as a whole."""

MOST_OF_RANK = 10
"""The most figures of each of the worst ranks."""

MOST_OPERATIONS = 32
"""How many operations found slow become labels in the life of a job: programs make up names without end."""

OTHER = "OTHER"
"""The label of all further operations."""

_MOST_CHARS = 64


class Figure(NamedTuple):
    """A value of a series.

    Attributes:
        series: the row of the table, with name, unit and meaning.
        labels: by their names.
        value: in the unit of the series; finite.
    """

    series: Series
    labels: dict[str, str]
    value: float


class Figures:
    """Makes the figures of one job, look by look."""

    def __init__(self) -> None:
        self._worst = WorstRanks()
        self._operations: set[str] = set()
        self._change: Change | None = None

    def of(self, snapshot: Snapshot, change: Change | None = None) -> list[Figure]:
        """Return the figures in the order of the table ``SERIES``, without those that are not known.

        Args:
            snapshot: the state of the run.
            change: what changes with it; the last change is remembered.
        """
        self._change = change or self._change
        operation = self._label(snapshot.verdict.operation)
        seen = SeenJob(snapshot, self._change, time.time(), operation, self._worst.of(snapshot))
        return [
            Figure(series, labels, float(value))
            for series in SERIES
            for labels, value in series.of(seen)
            if value is not None and math.isfinite(value)
        ]

    def _label(self, operation: str) -> str:
        """Return the label of an operation, in characters that every server takes."""
        if operation not in self._operations and len(self._operations) >= MOST_OPERATIONS:
            return OTHER
        self._operations.add(operation)
        return operation[:_MOST_CHARS].encode("utf-8", "replace").decode()


# -- the worst ranks -------------------------------------------------------------------------------------
# A dashboard keeps a series for each rank that it ever saw, so the choice is steady: a rank that is shown
# stays until it is clearly no longer among the worst, and differences below a percent do not count.


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
        place = {rank: at for at, rank in enumerate(dict.fromkeys(_named(snapshot)))}
        worst = sorted(
            snapshot.ranks,
            key=lambda now: (place.get(now.rank, len(place)), now.closed, _waited(now), now.rank),
        )
        shown = [now for now in worst[:_STAYS_WITHIN] if now.rank in self._shown]
        wanted = chain([now for now in worst if now.rank in place], shown, worst)
        chosen = list({now.rank: now for now in wanted}.values())[:MOST]
        self._shown = frozenset(now.rank for now in chosen)
        return sorted(chosen)


def _named(snapshot: Snapshot) -> Iterator[int]:
    """Yield the ranks to look at, the most certain first; some more than once."""
    verdict, end = snapshot.verdict, snapshot.end
    yield from chain(end.culprits, end.circle, verdict.ranks_to_look_at, end.gone)
    yield from chain(verdict.waited_for, verdict.recurring_for)
    yield from chain.from_iterable(suspect.ranks for suspect in verdict.suspects)


def _waited(now: RankNow) -> float:
    return round(now.waited_share, 2) if now.waited_share == now.waited_share else _UNKNOWN
