"""What is to be reached over all lines together, and what is reached."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from verdict_accuracy.figures import Results, known, percent, stated_calibration
from verdict_accuracy.scoring import Outcome
from verdict_accuracy.simulation import Scenario, is_job

FEW = 20
"""Bins with fewer verdicts say nothing about calibration."""


class Goal(NamedTuple):
    """A figure that is to be reached over many lines.

    Attributes:
        words: what is measured.
        of: computes the percentage; NaN if nothing of it was tried.
        bound: the percentage to reach.
        at_least: whether the bound is a minimum; else it is a maximum.
    """

    words: str
    of: Callable[[Results], float]
    bound: float
    at_least: bool = False

    def is_met(self, figure: float) -> bool:
        """Tell whether a figure is on the right side of the bound."""
        return figure >= self.bound if self.at_least else figure <= self.bound

    @property
    def bound_in_words(self) -> str:
        return f"at {'least' if self.at_least else 'most'} {self.bound:g}%"


def _everywhere(field: str) -> Callable[[Results], float]:
    return lambda results: percent(_outcomes(results.values()), field)


def _outcomes(lines: Iterable[Sequence[Outcome]]) -> list[Outcome]:
    return [outcome for line in lines for outcome in line]


def _in(applies: Callable[[Scenario], bool], field: str) -> Callable[[Results], float]:
    """Return a function that computes the mean of the percentages of all lines of a sort."""

    def mean_of(results: Results) -> float:
        figures = [percent(outcomes, field) for one, outcomes in results.items() if applies(one)]
        told = [figure for figure in figures if not math.isnan(figure)]
        return float(np.mean(told)) if told else math.nan

    return mean_of


def _is_healthy_and_busy(one: Scenario) -> bool:
    return one.noise == "busy" and one.fault == "healthy" and 4 <= one.ranks <= 16


def _miscalibration(results: Results) -> float:
    """Return by how many points the likelihood of the worst bin is off."""
    off = [abs(one.stated - one.right) for one in stated_calibration(results) if one.n >= FEW]
    return 100 * max(off) if off else math.nan


GOALS = (
    Goal("an innocent named for certain, all runs", _everywhere("certain_wrong"), 0.1),
    Goal(
        "busy machine of 4 to 16 ranks, healthy: an innocent named",
        _in(_is_healthy_and_busy, "wrong_name"), 0.5,
    ),
    Goal('a fault above 5% of the run: only "no rank is slow" is said', _everywhere("silent"), 0.0),
    Goal("right or acceptable, mean of the kinds of jobs", _in(is_job, "fine"), 95, at_least=True),
    Goal("cost within 10% of the truth, where named", _everywhere("cost_near"), 85, at_least=True),
    Goal("cost off by a factor of 2 or more, where named", _everywhere("cost_far"), 0.5),
    Goal('"Certain." right', _everywhere("certain_right"), 99.9, at_least=True),
    Goal("stated likelihood and fraction that is right differ by, worst bin", _miscalibration, 3),
    Goal(
        "windows of 20 steps at 20%, 8 steady ranks: found exactly",
        _in(lambda one: one[:5] == ("training", "all rows", "steady", "20% in 20 steps", 8), "exact"), 90,
        at_least=True,
    ),
)  # fmt: skip


def reached(results: Results) -> list[tuple[Goal, float]]:
    """Return all goals of which something was tried, and what is reached."""
    figures = [(goal, goal.of(results)) for goal in GOALS]
    return [one for one in figures if not math.isnan(one[1])]


def made_with(results: Results) -> str:
    """Say how many runs the figures are made from."""
    counts = sorted({len(outcomes) for outcomes in results.values()})
    each = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    n_runs = sum(len(outcomes) for outcomes in results.values())
    return f"Made from {len(results)} lines with {each} runs each, {n_runs} in all."


def least_fine(results: Results, n: int) -> list[tuple[Scenario, float]]:
    """Return the ``n`` lines of jobs whose verdicts are least often right or acceptable."""
    figures = [(one, percent(outcomes, "fine")) for one, outcomes in results.items() if is_job(one)]
    return sorted((f for f in figures if f[1] < 100), key=lambda figure: figure[1])[:n]


def costs_off(results: Results, n: int) -> list[tuple[Scenario, float]]:
    """Return the ``n`` lines of jobs whose stated cost is off by 10% or more, the worst first, as ratios."""
    ratios = {
        one: float(np.median(told))
        for one, outcomes in results.items()
        if is_job(one) and (told := known(outcomes, "cost_ratio"))
    }
    off = [(one, ratio) for one, ratio in ratios.items() if abs(ratio - 1) > 0.1]
    return sorted(off, key=lambda figure: -abs(math.log(max(figure[1], 1e-9))))[:n]
