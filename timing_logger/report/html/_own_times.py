"""The times that the verdict compared, as the heatmap shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from timing_logger.analysis.rows.table_types import Floats, Ints
from timing_logger.analysis.verdict.case import Judgement


class OwnTimes(NamedTuple):
    """What each rank spent on its own account in each step, and in which steps it was slow.

    The arrays are those of the judgement and no copies; the rest of the judgement can be freed.

    Attributes:
        ranks: the rank of each column.
        iterations: the iteration of each step.
        epochs: the epoch of each step; NaN where iterations do not restart.
        ms: steps x ranks; NaN where unknown.
        from_gaps: whether it is the time between communication, and not that of the rows of own work.
        slow: positions of the slow steps of each rank that the verdict names or suspects.
    """

    ranks: list[int]
    iterations: Ints
    epochs: Floats
    ms: Floats
    from_gaps: bool
    slow: Mapping[int, Ints]

    @classmethod
    def of(cls, judgement: Judgement) -> OwnTimes:
        times = judgement.case.times
        return cls(
            times.ranks, times.numbering.iterations(times.iterations),
            times.numbering.epochs_of(times.iterations), times.self_ms, times.from_gaps, judgement.slow,
        )  # fmt: skip
