"""What makes up for lost time by hand: what it costs, which part it explains, and how much is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hand_made_cases import case_of, times_of

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.verdict.case import Judgement
from timing_logger.analysis.verdict.owner import _Explanation, _explanation, explained
from timing_logger.results.facts import UnevenWork
from timing_logger.results.verdict import Verdict


class CostingIfQuicker:
    """Prices by which a run is shorter by so many ms, whatever makes it quicker; keeps by which factor."""

    def __init__(self, ms: float) -> None:
        self._ms = ms

    def saved_if_quicker_ms(self, factor: Floats) -> float:
        self.factor = factor
        return self._ms


def explaining(cost_ms: float, late_ms: float = 4.0, left_ms: float = 1.0) -> tuple[_Explanation, Any]:
    """Return what explains that one of three ranks is late in a run of 1000 ms, with its prices."""
    self_ms, without_ms = np.full((1, 3), 12.0), np.full((1, 3), 12.0)
    self_ms[0, 2] += late_ms
    without_ms[0, 2] += left_ms
    case, pricing = case_of(self_ms), CostingIfQuicker(cost_ms)
    found, prices = Judgement(case, Verdict(verdict="diffuse")), pricing
    without = times_of(without_ms)
    return _explanation(found, case, prices, UnevenWork, "work", without), pricing  # type: ignore[arg-type]


@pytest.mark.parametrize(("cost_ms", "is_visible"), [(50.0, True), (49.9, False)])
def test_what_costs_a_twentieth_of_the_run_is_told(cost_ms: float, is_visible: bool) -> None:
    none = {"GC": np.zeros((1, 3))}
    case = case_of(np.full((1, 3), 12.0), operations=["GC"], in_gaps_ms=none)
    pricing: Any = CostingIfQuicker(cost_ms)
    told = explained(Judgement(case, Verdict(verdict="diffuse")), case, pricing).verdict
    assert bool(told.evidence) is is_visible


@pytest.mark.parametrize("cost_ms", [50.0, 49.9])
def test_what_time_may_be_lost_to_is_stated_with_what_it_costs(cost_ms: float) -> None:
    found, _ = explaining(cost_ms)
    assert (found.fact, found.owner, found.cost_ms) == (UnevenWork(cost_ms / 1000), "work", cost_ms)


def test_it_is_priced_by_how_much_longer_each_rank_takes_with_it() -> None:
    _, pricing = explaining(60.0, late_ms=4.0, left_ms=0.0)
    assert pricing.factor.tolist() == [[1.0, 1.0, 16 / 12]]


@pytest.mark.parametrize(
    ("late_ms", "left_ms", "part"),
    [(4.0, 1.0, 0.75), (4.0, 0.0, 1.0), (0.5, 0.125, 0.75), (0.0, 1.0, 0.0)],
)
def test_it_explains_what_is_not_left_of_the_time_that_ranks_are_late(
    late_ms: float, left_ms: float, part: float
) -> None:
    assert explaining(60.0, late_ms, left_ms)[0].explained == part


def test_where_ranks_are_judged_by_the_time_between_communication_that_tells_what_is_left() -> None:
    self_ms, gap_ms = np.array([[12.0, 12.0, 16.0]]), np.array([[12.0, 12.0, 14.0]])
    case = case_of(self_ms, gap_ms=self_ms)
    without = times_of(np.full((1, 3), 12.0), gap_ms=gap_ms)
    prices: Any = CostingIfQuicker(60.0)
    for judged, part in ((case, 1.0), (case.with_times(case.times.by_gaps()), 0.5)):
        found = Judgement(judged, Verdict(verdict="diffuse"))
        assert _explanation(found, case, prices, UnevenWork, "work", without).explained == part
