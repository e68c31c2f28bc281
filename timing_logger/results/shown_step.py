"""One step of a run, as much of it as is shown: instant by instant of some ranks, and who waited for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pandas as pd


class ShownStep(NamedTuple):
    """One step of a run.

    Attributes:
        iteration, epoch: of the step; the epoch is NaN where iterations do not restart.
        loses_time: whether it was chosen for the time that is lost in it.
        n_ranks: the number of ranks that took it.
        ranks: those that are shown, ascending.
        stretches: what these did, as :func:`timing_logger.analysis.account_of_step` returns it.
        waits: how long each rank of the step waited, and for whom: ``rank``, ``waited_for`` (-1 in transfers
            between others) and ``ms``.
    """

    iteration: int
    epoch: float
    loses_time: bool
    n_ranks: int
    ranks: list[int]
    stretches: pd.DataFrame
    waits: pd.DataFrame
