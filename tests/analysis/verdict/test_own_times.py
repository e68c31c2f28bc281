"""By which times ranks are judged, what that rests on, and who is told of beside the rank that is slow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hand_made_cases import candidate_of, case_of

from timing_logger.analysis.verdict.own_times import (
    _few_steps,
    _outdone,
    _passed_on,
    _probably,
    _what_it_rests_on,
    _why_not_others,
    by_own_times,
)
from timing_logger.analysis.verdict.who.candidates import COST
from timing_logger.analysis.verdict.who.culprits import EXPLAINED, Culprits
from timing_logger.analysis.verdict.who.lockstep import Party
from timing_logger.analysis.verdict.who.pricing import pricing_of
from timing_logger.results.facts import (
    AloneInRole,
    Costliest,
    Fact,
    FewSteps,
    Gate,
    NotNamed,
    OneRank,
    SelfTimeBetween,
    SelfTimeOfRows,
    SelfTimeUnknown,
    StepsCounted,
    TwoRanks,
)
from timing_logger.results.policy import STANDARD
from timing_logger.results.verdict import Suspect

# -- by which times ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("covered", "verdict"), [(0.81, "healthy"), (0.79, "diffuse")])
def test_rows_that_cover_less_than_four_fifths_of_the_time_do_not_make_a_run_healthy(
    covered: float, verdict: str
) -> None:
    """Between communication, each of four ranks takes longer in its turn, by half as long again."""
    gap_ms = np.full((40, 4), 1.0)
    gap_ms[np.arange(40), np.arange(40) % 4] = 1.5
    gap_ms *= 10.0 / covered / gap_ms.mean()
    case = case_of(np.full((40, 4), 10.0), gap_ms=gap_ms)
    assert by_own_times(case, pricing_of(case)).verdict.verdict == verdict


@pytest.mark.parametrize(
    ("column", "cost_ms", "is_outdone"),
    [(0, 20.1, True), (0, 20.0, False), (1, 10.1, True), (1, 10.0, False)],
)
def test_unlogged_time_of_the_named_rank_must_cost_twice_as_much_and_of_another_more(
    column: int, cost_ms: float, is_outdone: bool
) -> None:
    def judged(column: int, cost_ms: float) -> Any:
        candidate = SimpleNamespace(column=column, cost_ms=cost_ms, may_be_named=True)
        case = SimpleNamespace(policy=STANDARD, times=SimpleNamespace(ranks=[7, 8]))
        found = SimpleNamespace(candidates=[candidate])
        return SimpleNamespace(case=case, culprits=found, verdict=SimpleNamespace(ranks=(7,)))

    assert _outdone(judged(0, 10.0), judged(column, cost_ms)) is is_outdone


# -- what it rests on --------------------------------------------------------------------------------------


def rests_on(n_ranks: int, *, unknown: int | None = None, **its: Any) -> list[Fact]:
    self_ms = np.ones((20, n_ranks))
    if unknown is not None:
        self_ms[:, unknown] = np.nan
    return list(_what_it_rests_on(case_of(self_ms, **its)))


def test_it_is_told_by_which_times_ranks_are_compared_and_what_limits_that() -> None:
    of_rows = SelfTimeOfRows(("FORWARD",))
    assert rests_on(3) == [of_rows]
    assert rests_on(3, from_gaps=True) == [SelfTimeBetween()]
    assert rests_on(3, unknown=1) == [of_rows, SelfTimeUnknown((1,))]
    assert rests_on(3, roles=["a", "a", "b"]) == [of_rows, AloneInRole(("b",))]
    assert rests_on(1) == [of_rows, OneRank()]
    assert rests_on(2) == [of_rows, TwoRanks()]
    assert rests_on(2, roles=["a", "b"]) == [of_rows, AloneInRole(("a", "b"))]
    assert rests_on(3, has_iterations=False) == [of_rows, StepsCounted()]


@pytest.mark.parametrize(("n_steps", "are_few"), [(19, True), (20, False), (0, False)])
def test_fewer_steps_than_name_any_rank_are_said_to_be_few(n_steps: int, are_few: bool) -> None:
    found = _few_steps(case_of(np.ones((n_steps, 4))), nobody_is_slow=True)
    assert found == ((FewSteps(n_steps, nobody_is_slow=True),) if are_few else ())


# -- who is told of beside ---------------------------------------------------------------------------------


def passing_on(*for_each: float) -> tuple[int, ...]:
    """Return who passes a delay of rank 0 on, of ranks that were waited for this long in ms in each step."""
    steps, ranks = np.arange(5), len(for_each)
    self_ms = np.full((5, ranks), 10.0)
    self_ms[:, 0] = 30.0
    waits = SimpleNamespace(
        for_it_ms=np.tile(for_each, (5, 1)), longest_ms=np.zeros((5, ranks)),
        unmatched_ms=np.ones((5, ranks)),
    )  # fmt: skip
    times: Any = SimpleNamespace(waits=waits, self_ms=self_ms, ranks_of=tuple)
    candidate: Any = SimpleNamespace(slow=SimpleNamespace(steps=steps), column=0)
    found: Any = _passed_on(times, candidate, [0])
    return tuple(int(rank) for fact in found for rank in fact.ranks)


def test_a_rank_that_a_tenth_of_the_waiting_is_for_passes_a_delay_on() -> None:
    assert passing_on(79.0, 11.0, 10.0, 0.0) == (1, 2)


def test_a_rank_that_less_of_the_waiting_is_for_is_not_worth_naming() -> None:
    assert passing_on(80.0, 11.0, 9.0, 0.0) == (1,)


@pytest.mark.parametrize(("n", "told"), [(2, [0, 1]), (3, [0, 1, 2]), (5, [0, 1, 2])])
def test_of_the_first_three_others_it_is_said_why_they_are_not_named(n: int, told: list[int]) -> None:
    times: Any = SimpleNamespace(ranks=range(n), step_range=lambda steps: (0, len(steps) - 1))
    slow = SimpleNamespace(level=0.5, kind="persistent", steps=np.arange(9))
    gate = SimpleNamespace(passed=False)
    others: Any = [SimpleNamespace(column=column, slow=slow, gates=(gate,)) for column in range(n)]
    found = [fact for fact in _why_not_others(times, others, None) if isinstance(fact, NotNamed)]
    assert [(fact.rank, fact.failed) for fact in found] == [(rank, (gate,)) for rank in told]


# -- who probably is slow ----------------------------------------------------------------------------------


def test_of_several_suspects_the_first_one_tells_how_certain_it_is_that_it_is_slow() -> None:
    cheap = Gate(COST, 0.0, 0.01, False)
    its, other = candidate_of(1), candidate_of(2, gates=[cheap])
    suspects = (Suspect((1,), "FORWARD", 0.7, 0.9), Suspect((2,), "FORWARD", 0.2, 0.3))
    found = Culprits([its, other], [], Party((its,)), 40.0, None, suspects)
    verdict = _probably(case_of(np.ones((40, 4))), found, Party((its,)))
    assert (verdict.verdict, verdict.slow_steps, verdict.cost_ms) == ("suspect", 20, 40.0)
    assert verdict.gates == (Gate(EXPLAINED, 0.7, STANDARD.min_explained_share, False),)
    assert Costliest(0.9) in verdict.evidence
    assert [fact.rank for fact in verdict.evidence if isinstance(fact, NotNamed)] == [1, 2]
