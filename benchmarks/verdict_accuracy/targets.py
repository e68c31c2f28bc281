"""What verdicts are to reach, and whether they do."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from verdict_accuracy.figures import Results, percent
from verdict_accuracy.simulation import Scenario

MAX_WRONG_NAMES = 0.2


class Target(NamedTuple):
    """What is to be reached in each of some lines, as a percentage of runs."""

    words: str
    field: str
    bound: float
    at_least: bool
    applies: Callable[[Scenario], bool]

    def standing(self, results: Results) -> Standing | None:
        """As the line that is farthest from it stands; None if no such line was tried."""
        figures = [(percent(results[one], self.field), str(one)) for one in results if self.applies(one)]
        if not figures:
            return None
        figure, where = (min if self.at_least else max)(figures)
        is_met = figure >= self.bound if self.at_least else figure <= self.bound
        bound = f"at {'least' if self.at_least else 'most'} {self.bound:g}%"
        return Standing(self.words, bound, figure, where, is_met)


class Standing(NamedTuple):
    """How a target stands: in words, its bound, the worst figure and where that is."""

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
        return one.fault == "healthy" and is_meant(one.ranks)

    return Target(f"false alarms in every healthy class of {words}", "false_alarm", bound, False, applies)


TARGETS = (
    _named("20% slow, steady noise, 8, 64 and 256 ranks:", 95, "slow 20%", "steady", (8, 64, 256)),
    _named("20% slow, noise with pauses, 64 ranks:", 90, "slow 20%", "pauses", (64,)),
    _named("50% slow, noise with pauses, 256 ranks:", 95, "slow 50%", "pauses", (256,)),
    _alarms("4 or more ranks", 2, lambda ranks: ranks >= 4),
    _alarms("2 ranks", 5, lambda ranks: ranks == 2),
)


def standings(results: Results) -> list[Standing]:
    """Of the targets of which something was tried; that over all runs last."""
    found = [standing for target in TARGETS if (standing := target.standing(results))]
    everything = [outcome for outcomes in results.values() for outcome in outcomes]
    wrong = percent(everything, "wrong_name")
    where = f"all {len(everything)} runs"
    return [
        *found,
        Standing("wrong names", f"at most {MAX_WRONG_NAMES:g}%", wrong, where, wrong <= MAX_WRONG_NAMES),
    ]
