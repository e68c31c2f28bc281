"""What a run would have taken with something repaired."""

from __future__ import annotations

from dataclasses import dataclass

from timing_logger.results.facts import Reason
from timing_logger.results.fix import Fix


@dataclass(frozen=True, kw_only=True)
class Slowest:
    """Who would cost the run most, then.

    Attributes:
        rank: the rank.
        operation: the operation in which it takes most beyond its peers; "" if that is unknown.
        cost_ms: by how much the run would be shorter still with this rank like its peers, in ms.
    """

    rank: int
    operation: str
    cost_ms: float


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """What a run would have taken with something repaired.

    Attributes:
        fixes: what is repaired, all of it together.
        run_ms: how long the run was, in ms.
        gain_ms: by how much it would have been shorter, in ms.
        gain_low_ms, gain_high_ms: a run made again with this repaired would be shorter by an amount between
            these, with 95% confidence: by how much the steps of the run as repaired differ from each other,
            and by what playing the run again does not reproduce.
        assumed_gain_ms: where no rank had now more and now less to do, so that the run does not tell how its
            times grow with the work (``work=even``): the least and the greatest gain by what may be so. The
            least is that if ranks with more to do are only slow; the greatest that if the others take no
            longer with the work that they take over. ``gain_ms`` takes times to grow as from the ranks with
            less to those with more, and the interval above spans all of it. None where nothing is assumed.
        slowest: who would cost most then; None if nobody would cost 1% of the run.
        why_unjudged: why nobody could be judged in this run, such as that ranks have no rows; None if that is
            not so.
        plays_again: whether the run was played again. If not, its rows do not show who waits for whom in all
            of it, and each step is taken to be as long as its slowest rank works.
    """

    fixes: tuple[Fix, ...]
    run_ms: float
    gain_ms: float
    gain_low_ms: float
    gain_high_ms: float
    assumed_gain_ms: tuple[float, float] | None
    slowest: Slowest | None
    why_unjudged: Reason | None
    plays_again: bool

    @property
    def gain_share(self) -> float:
        """The gain as a fraction of the run."""
        return self.gain_ms / self.run_ms if self.run_ms > 0 else 0.0
