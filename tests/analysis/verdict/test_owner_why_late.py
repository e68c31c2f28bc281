"""What a run loses to pauses is told: of all kinds alike, whether they hit one rank, ranks in turn or all."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from simulated_runs import Floats, of_operations, with_work
from slow import slow

from timing_logger.analysis import Verdict, stragglers
from timing_logger.analysis.rows.operations import PAUSES
from timing_logger.results.facts import Pauses
from timing_logger.words.verdict import verdict_sentence, what_next

SHAPE = 120, 4
ADVICE = {"GC": "gc.freeze()", "COMPILE": "recompiles", "GRAPH_CAPTURE": "once", "IMPORT": "at the top"}

any_kind = pytest.mark.parametrize(
    "kind", [PAUSES[0], *(slow(kind, "pauses of all kinds are told in one way") for kind in PAUSES[1:])]
)


def run(**pauses_ms: Floats) -> Any:
    """Return a run of four equal ranks, which pause in the middle of each step."""
    factor = np.exp(np.random.default_rng(1000).normal(0, 0.03, SHAPE))
    operations_ms = {"FORWARD": 9.0 * factor, "BACKWARD": 15.0 * factor, "OPTIMIZER": 2.0 * factor}
    return of_operations({**operations_ms, **pauses_ms, "LAST": np.ones(SHAPE)})


def pauses(step_and_rank: tuple[Any, Any], ms: float) -> Floats:
    pauses_ms = np.zeros(SHAPE)
    pauses_ms[step_and_rank] = ms
    return pauses_ms


def in_turn(ms: float) -> Floats:
    return sum((pauses((slice(3 * rank + 1, None, 12), rank), ms) for rank in range(4)), np.zeros(SHAPE))


def lasted_ms(timings: pd.DataFrame) -> float:
    of_rank = timings[timings["rank"] == 0]
    return 1000 * float(of_rank["end_counter"].max() - of_rank["start_counter"].min())


@functools.cache
def lasted_without_pauses_ms() -> float:
    return lasted_ms(run())


@functools.cache
def paused_in_turn(kind: str) -> pd.DataFrame:
    timings: pd.DataFrame = run(**{kind: in_turn(80.0)})
    return timings


@functools.cache
def verdict_in_turn(kind: str) -> Verdict:
    return stragglers(paused_in_turn(kind))


def facts(verdict: Verdict) -> list[Pauses]:
    return [fact for fact in verdict.evidence if isinstance(fact, Pauses)]


@any_kind
def test_pauses_that_hit_ranks_in_turn_are_why_much_time_is_lost(kind: str) -> None:
    paused, verdict = paused_in_turn(kind), verdict_in_turn(kind)
    assert (verdict.verdict, verdict.ranks) == ("diffuse", ())
    assert verdict.cost_ms == pytest.approx(lasted_ms(paused) - lasted_without_pauses_ms(), rel=0.1)
    assert facts(verdict) == [Pauses(kind, verdict.cost_share)]
    assert ADVICE[kind] in what_next(verdict)


def within_optimizer(timings: pd.DataFrame, kind: str) -> Any:
    """Return the run with its pauses inside of the rows that they follow."""
    nested = timings.copy()
    (optimizer,), (pause,) = (np.nonzero(nested["operation"] == name) for name in ("OPTIMIZER", kind))
    ends = nested["end_counter"].to_numpy().copy()
    ends[optimizer] = ends[pause]
    nested["end_counter"] = ends
    nested["elapsed_ms"] = 1000 * (ends - nested["start_counter"])
    return nested


@any_kind
def test_a_pause_inside_of_another_row_is_counted_once(kind: str) -> None:
    beside = paused_in_turn(kind)
    nested = within_optimizer(beside, kind)
    assert nested["elapsed_ms"].sum() > 1.1 * beside["elapsed_ms"].sum()
    verdict, expected = stragglers(nested), verdict_in_turn(kind)
    assert (verdict.verdict, verdict.cost_ms) == ("diffuse", pytest.approx(expected.cost_ms))
    assert facts(verdict) == [Pauses(kind, pytest.approx(expected.cost_share))]


@any_kind
def test_pauses_of_all_ranks_at_once_are_told_though_no_rank_is_slow(kind: str) -> None:
    paused = run(**{kind: pauses((slice(5, None, 20), slice(None)), 200.0)})
    verdict = stragglers(paused)
    (fact,) = facts(verdict)
    assert verdict.verdict == "healthy"
    assert fact.run_share == pytest.approx(1 - lasted_without_pauses_ms() / lasted_ms(paused), abs=0.01)
    assert f"the run would be {fact.run_share:.0%} shorter" in verdict_sentence(verdict)
    assert ADVICE[kind] in what_next(verdict)


@any_kind
def test_a_rank_that_pauses_alone_is_named_with_that(kind: str) -> None:
    verdict = stragglers(run(**{kind: pauses((slice(1, None, 3), 1), 60.0)}))
    assert (verdict.ranks_to_look_at, verdict.operation) == ((1,), kind)
    assert ADVICE[kind] in what_next(verdict)


@pytest.mark.slow("a rank that pauses alone is quick above, and its work a rarer case")
@pytest.mark.parametrize("kind", PAUSES)
def test_it_is_neither_the_fault_of_its_machine_nor_of_its_work(kind: str) -> None:
    work = np.random.default_rng(0).uniform(0.8, 1.2, SHAPE)
    verdict = stragglers(with_work(run(**{kind: pauses((slice(1, None, 3), 1), 60.0)}), "FORWARD", work))
    assert (verdict.ranks, verdict.operation, verdict.owner) == ((1,), kind, "")
    assert "For the work that it has" not in verdict_sentence(verdict)


@any_kind
def test_what_the_first_step_is_for_is_no_cause(kind: str) -> None:
    verdict = stragglers(run(**{kind: pauses((0, slice(None)), 5000.0)}))
    assert (verdict.verdict, facts(verdict)) == ("healthy", [])


def test_of_two_kinds_each_is_priced_by_itself() -> None:
    both = stragglers(run(GC=in_turn(60.0), COMPILE=pauses((slice(5, None, 20), slice(None)), 200.0)))
    shares = {fact.operation: fact.run_share for fact in facts(both)}
    assert set(shares) == {"GC", "COMPILE"}
    assert sum(shares.values()) < 0.6
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_a_change_of_all_ranks_says_what_they_paused_for() -> None:
    verdict = stragglers(run(COMPILE=pauses((slice(60, None), slice(None)), 60.0)))
    assert verdict.verdict == "group-wide"
    assert "Without what torch.compile compiled after the first step" in verdict_sentence(verdict)
