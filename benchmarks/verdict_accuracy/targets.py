"""The targets for verdicts on runs whose steps all do the same, and whether they are met."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from verdict_accuracy.figures import Results, percent
from verdict_accuracy.simulation import Scenario, is_job

MAX_WRONG_NAMES = 0.2


class Target(NamedTuple):
    """A percentage of runs that is to be reached, or not exceeded, in each of some lines.

    Attributes:
        words: the target in words.
        field: the field of ``Outcome`` that is counted.
        bound: the percentage.
        at_least: whether the bound is a minimum; else it is a maximum.
        applies: tells to which lines the target applies.
    """

    words: str
    field: str
    bound: float
    at_least: bool
    applies: Callable[[Scenario], bool]

    def standing(self, results: Results) -> Standing | None:
        """Return how the target stands, in its worst line; None if no line of it was tried."""
        figures = [(percent(results[one], self.field), str(one)) for one in results if self.applies(one)]
        if not figures:
            return None
        figure, where = (min if self.at_least else max)(figures)
        is_met = figure >= self.bound if self.at_least else figure <= self.bound
        bound = f"at {'least' if self.at_least else 'most'} {self.bound:g}%"
        return Standing(self.words, bound, figure, where, is_met)


class Standing(NamedTuple):
    """How a target stands: its words and bound, the worst figure, the line of that, and whether it is met."""

    words: str
    bound: str
    figure: float
    where: str
    is_met: bool


def _named(words: str, bound: float, fault: str, noise: str, ranks: Collection[int]) -> Target:
    def applies(one: Scenario) -> bool:
        like = (one.architecture, one.fault, one.noise) == ("data-parallel", fault, noise)
        return like and one.ranks in ranks

    return Target(f"{words} named exactly", "exact", bound, True, applies)


def _alarms(words: str, bound: float, is_meant: Callable[[int], bool]) -> Target:
    def applies(one: Scenario) -> bool:
        return one.fault == "healthy" and is_meant(one.ranks) and not is_job(one)

    return Target(f"false alarms in every healthy class of {words}", "false_alarm", bound, False, applies)


TARGETS = (
    _named("20% slow, steady noise, 8, 64 and 256 ranks:", 95, "slow 20%", "steady", (8, 64, 256)),
    _named("20% slow, noise with pauses, 64 ranks:", 90, "slow 20%", "pauses", (64,)),
    _named("50% slow, noise with pauses, 256 ranks:", 95, "slow 50%", "pauses", (256,)),
    _alarms("4 or more ranks", 2, lambda ranks: ranks >= 4),
    _alarms("2 ranks", 5, lambda ranks: ranks == 2),
)


def standings(results: Results) -> list[Standing]:
    """Return how each target stands of which a line was tried; last the one for wrong names in all runs."""
    found = [standing for target in TARGETS if (standing := target.standing(results))]
    everything = [outcome for one, outcomes in results.items() if not is_job(one) for outcome in outcomes]
    if not everything:
        return found
    wrong = percent(everything, "wrong_name")
    where = f"all {len(everything)} runs"
    return [
        *found,
        Standing("wrong names", f"at most {MAX_WRONG_NAMES:g}%", wrong, where, wrong <= MAX_WRONG_NAMES),
    ]
