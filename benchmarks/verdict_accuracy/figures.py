"""Many outcomes -> the figures of a line, how far likelihoods are true, and which targets are met."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from verdict_accuracy.scoring import Outcome
from verdict_accuracy.simulation import Scenario

Results = Mapping[Scenario, Sequence[Outcome]]

NAMEABLE_FAULTS = ("slow", "window", "sporadic", "two", "half")


def percent(outcomes: Iterable[Outcome], field: str) -> float:
    """Of how many of these it holds; NaN where unknown of all."""
    values = np.array([float(getattr(outcome, field)) for outcome in outcomes])
    values = values[~np.isnan(values)]
    return float(100 * values.mean()) if len(values) else float("nan")


def median(outcomes: Iterable[Outcome], field: str) -> float:
    """NaN where unknown of all."""
    values = np.array([float(getattr(outcome, field)) for outcome in outcomes])
    values = values[~np.isnan(values)]
    return float(np.median(values)) if len(values) else float("nan")


class Bin(NamedTuple):
    """Suspects whose stated likelihood was in [low, high), how many, and how many of them were right."""

    low: float
    high: float
    n: int
    mean: float
    right: float


def calibration(results: Results, edges: Sequence[float] = (0, 0.25, 0.5, 0.75, 0.9, 1.001)) -> list[Bin]:
    """Whether a suspect of likelihood 0.8 is right four times out of five."""
    stated = [(o.likelihood, not o.wrong_suspect) for outcomes in results.values() for o in outcomes]
    stated = [one for one in stated if not np.isnan(one[0])]
    bins = []
    for low, high in pairwise(edges):
        inside = [one for one in stated if low <= one[0] < high]
        if inside:
            likelihood, right = np.array(inside, dtype=float).mean(axis=0)
            bins.append(Bin(low, min(high, 1.0), len(inside), likelihood, right))
    return bins


class Target(NamedTuple):
    """What is to be reached in the worst of some lines."""

    words: str
    field: str
    bound: float
    at_least: bool
    applies: Callable[[Scenario], bool]

    def worst(self, results: Results) -> tuple[Scenario, float] | None:
        """The line farthest from it, and its figure; None if no such line was tried."""
        figures = [(one, percent(results[one], self.field)) for one in results if self.applies(one)]
        pick = min if self.at_least else max
        return pick(figures, key=lambda figure: figure[1]) if figures else None

    def is_met_by(self, figure: float) -> bool:
        return figure >= self.bound if self.at_least else figure <= self.bound


def _named(fault: str, noise: str, ranks: Sequence[int]) -> Callable[[Scenario], bool]:
    return lambda one: (
        one.architecture == "data-parallel"
        and one.fault == fault
        and one.noise == noise
        and one.ranks in ranks
    )


TARGETS = (
    Target(
        "20% slow is named, steady noise, 8, 64 and 256 ranks",
        "exact",
        95,
        True,
        _named("slow 20%", "steady", (8, 64, 256)),
    ),
    Target(
        "20% slow is named, noise with pauses, 64 ranks",
        "exact",
        90,
        True,
        _named("slow 20%", "pauses", (64,)),
    ),
    Target(
        "50% slow is named, noise with pauses, 256 ranks",
        "exact",
        95,
        True,
        _named("slow 50%", "pauses", (256,)),
    ),
    Target(
        "false alarms in each healthy class, 4 or more ranks",
        "false_alarm",
        2,
        False,
        lambda one: one.fault == "healthy" and one.ranks >= 4,
    ),
    Target(
        "false alarms in each healthy class, 2 ranks",
        "false_alarm",
        5,
        False,
        lambda one: one.fault == "healthy" and one.ranks == 2,
    ),
)
MAX_WRONG_NAMES = 0.2


class Standing(NamedTuple):
    """How a target stands: in words, its bound, the worst line and its figure."""

    words: str
    bound: str
    figure: float
    where: str
    is_met: bool


def standings(results: Results) -> list[Standing]:
    """Of the targets of which something was tried; that over all lines last."""
    found = []
    for target in TARGETS:
        worst = target.worst(results)
        if worst:
            scenario, figure = worst
            bound = f"{'at least' if target.at_least else 'at most'} {target.bound:g}%"
            found.append(Standing(target.words, bound, figure, str(scenario), target.is_met_by(figure)))
    everything = [outcome for outcomes in results.values() for outcome in outcomes]
    wrong = percent(everything, "wrong_name")
    found.append(Standing(
        "wrong names in all runs", f"at most {MAX_WRONG_NAMES:g}%", wrong,
        f"{len(everything)} runs", wrong <= MAX_WRONG_NAMES,
    ))  # fmt: skip
    return found


def worst_lines(results: Results, field: str, n: int) -> list[tuple[Scenario, float]]:
    """The lines with most of what should not be; those without any left out."""
    figures = [(one, percent(outcomes, field)) for one, outcomes in results.items()]
    return sorted((f for f in figures if f[1] > 0), key=lambda figure: -figure[1])[:n]
