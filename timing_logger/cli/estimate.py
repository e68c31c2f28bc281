"""Estimates what share of a command's work is done, and how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from timing_logger.progress import Stage

_MOST_OF_A_STEP = 0.9
"""A step that takes longer than those before stands still here."""

_ENOUGH = 0.02
"""From a smaller share nothing can be concluded."""


class Estimate:
    """Hears of a command's stages.

    Args:
        shares: the stages in their order, and how long each usually takes, in any unit. A stage that is not
            among them takes no time.
        clock_s: returns the time, in seconds.
    """

    def __init__(self, shares: Mapping[Stage, float], clock_s: Callable[[], float] = time.monotonic) -> None:
        self._shares = shares
        self._clock_s = clock_s
        self._begun_s = clock_s()
        self._begin(None, 1, self._begun_s)

    def _begin(self, stage: Stage | None, n_steps: int, now_s: float) -> None:
        self.stage = stage
        self._n_steps, self._n_done = max(n_steps, 1), 0
        self._stage_s = self._step_s = now_s

    def begin(self, stage: Stage, n_steps: int) -> None:
        """Note that a stage begins; if it was there before, the work begins again, on other files."""
        now_s, order = self._clock_s(), list(self._shares)
        if stage not in order:
            return
        if self.stage is not None and order.index(stage) <= order.index(self.stage):
            self._begun_s = now_s
        self._begin(stage, n_steps, now_s)

    def done(self, n_steps: int) -> None:
        """Note that so many steps of this stage are done."""
        self._n_done, self._step_s = min(n_steps, self._n_steps), self._clock_s()

    def share_done(self) -> float:
        """Return what share of all work is done, from 0 to 1."""
        if self.stage is None:
            return 0.0
        done_of_stage = min((self._n_done + self._share_of_step()) / self._n_steps, 1.0)
        whole = sum(self._shares.values())
        return (self._share_before() + self._shares[self.stage] * done_of_stage) / whole

    def left_s(self) -> float | None:
        """Return how many seconds the rest will take; None as long as too little is done to tell."""
        share = self.share_done()
        if share < _ENOUGH:
            return None
        return (self._clock_s() - self._begun_s) * (1 - share) / share

    def _share_before(self) -> float:
        order = list(self._shares)
        assert self.stage is not None
        return sum(self._shares[stage] for stage in order[: order.index(self.stage)])

    def _share_of_step(self) -> float:
        """Return what share of the step under way is done, if it takes as long as can be expected."""
        expected_s = self._expected_s()
        if not expected_s or self._n_done == self._n_steps:
            return 0.0
        return min((self._clock_s() - self._step_s) / expected_s, _MOST_OF_A_STEP)

    def _expected_s(self) -> float:
        """Return how long a step takes, by those of this stage or the stages before; 0 if that is unknown."""
        if self._n_done:
            return (self._step_s - self._stage_s) / self._n_done
        before = self._share_before()
        if not before or self.stage is None:
            return 0.0
        return (self._stage_s - self._begun_s) / before * self._shares[self.stage] / self._n_steps
