"""The figures of a run in progress: a bounded list, as long for ten thousand ranks as for sixteen.

Whoever keeps them, keeps each series for weeks, and pays by the series.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

from timing_logger.live.series import SERIES, SeenJob, Series
from timing_logger.live.worst_ranks import WorstRanks

if TYPE_CHECKING:
    from timing_logger.engine.changes import Change
    from timing_logger.live.snapshot import Snapshot

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
