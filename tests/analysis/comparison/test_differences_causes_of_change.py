"""What explains a change is named: pauses, bytes, a rank, code that is not timed; and nothing by chance."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from compared_runs import PARTS_MS, quantity, summary

from timing_logger.analysis.comparison.compare import compare_runs
from timing_logger.analysis.comparison.differences import _explains, causes_of
from timing_logger.results.comparison import Comparison, NewCause
from timing_logger.results.run_summary import MOST_OPERATIONS, Quantity, RunSummary, SummarizedVerdict


def runs(seed: int, of_run: Callable[[float], RunSummary], n: int = 5) -> list[RunSummary]:
    drawn = np.random.default_rng(seed).normal(0.0, 0.005, n)
    return [of_run(float(one)) for one in np.exp(drawn)]


def longer(
    by_ms: float, *others: Quantity, verdict: SummarizedVerdict | None = None
) -> Callable[[float], RunSummary]:
    """A run whose own work takes longer, with further quantities."""
    parts_ms = {**PARTS_MS, "own work": PARTS_MS["own work"] + by_ms}

    def of_run(factor: float) -> RunSummary:
        spread = [one._replace(mean_ms=factor * one.mean_ms) for one in others]
        return summary(factor, *spread, parts_ms=parts_ms, verdict=verdict)

    return of_run


def first(found: Comparison) -> NewCause:
    assert found.verdict in ("regressed", "improved")
    return found.causes[0]


def test_pauses_of_the_collector_are_named() -> None:
    found = compare_runs(runs(1, longer(8.0, quantity("GC", 8.0, n_rows=0.2))), runs(2, longer(0.0)))
    assert (first(found).kind, first(found).operation, first(found).amount) == ("pauses", "GC", 0.2)


def test_bytes_that_an_operation_has_more_are_named_with_the_layer() -> None:
    def reduced(n_bytes: float, ms: float) -> list[Quantity]:
        return [
            quantity("ALLREDUCE", ms, n_bytes=n_bytes + 100.0),
            quantity("ALLREDUCE", ms, n_bytes=n_bytes, kind="layer", layer="fc.weight"),
            quantity("ALLREDUCE", 1.0, n_bytes=100.0, kind="layer", layer="fc.bias"),
        ]

    found = compare_runs(runs(1, longer(9.0, *reduced(2e6, 18.0))), runs(2, longer(0.0, *reduced(1e6, 9.0))))
    cause = first(found)
    assert (cause.kind, cause.operation, cause.layer) == ("bytes", "ALLREDUCE", "fc.weight")
    assert (cause.amount, cause.against_amount) == (2e6 + 100, 1e6 + 100)


def test_an_operation_that_is_made_more_often_is_named() -> None:
    found = compare_runs(
        runs(1, longer(9.0, quantity("ALLREDUCE", 18.0, n_rows=4.0))),
        runs(2, longer(0.0, quantity("ALLREDUCE", 9.0, n_rows=2.0))),
    )
    assert (first(found).kind, first(found).amount, first(found).against_amount) == ("count", 4.0, 2.0)


def test_an_operation_that_only_one_side_has_is_named() -> None:
    with_it, without = runs(1, longer(9.0, quantity("LOSS", 9.0))), runs(2, longer(0.0))
    assert first(compare_runs(with_it, without)).kind == "new"
    assert first(compare_runs(without, with_it)).kind == "gone"


def test_own_work_that_takes_longer_is_named() -> None:
    found = compare_runs(
        runs(1, longer(9.0, quantity("FORWARD", 39.0))), runs(2, longer(0.0, quantity("FORWARD", 30.0)))
    )
    assert (first(found).kind, first(found).operation) == ("work", "FORWARD")


def test_a_rank_that_most_runs_of_one_side_name_is_named() -> None:
    slow = SummarizedVerdict("rank", True, [1], "DATA", 9.0)
    nobody = SummarizedVerdict("healthy", True, [], "", 0.0)
    found = compare_runs(runs(1, longer(9.0, verdict=slow)), runs(2, longer(0.0, verdict=nobody)))
    assert (first(found).kind, first(found).ranks, first(found).operation) == ("rank", (1,), "DATA")
    assert (first(found).ms, first(found).against_ms) == (9.0, 0.0)
    other_way = compare_runs(runs(2, longer(0.0, verdict=nobody)), runs(1, longer(9.0, verdict=slow)))
    assert (first(other_way).kind, first(other_way).ms, first(other_way).against_ms) == ("rank", 0.0, 9.0)


def test_a_rank_that_both_sides_name_is_no_new_cause() -> None:
    slow, slower = (SummarizedVerdict("rank", True, [1], "DATA", cost_ms) for cost_ms in (9.0, 18.0))
    found = compare_runs(runs(1, longer(9.0, verdict=slower)), runs(2, longer(0.0, verdict=slow)))
    assert found.verdict == "regressed"
    assert "rank" not in [cause.kind for cause in found.causes]


def test_a_rank_falls_behind_that_no_verdict_names() -> None:
    def own(of_last_ms: float) -> list[Quantity]:
        return [
            quantity("not timed", 5.0 + (of_last_ms if rank == 3 else 0.0), kind="rank", rank=rank)
            for rank in range(4)
        ]

    found = compare_runs(runs(1, longer(9.0, *own(9.0))), runs(2, longer(0.0, *own(0.0))))
    assert (first(found).kind, first(found).ranks, first(found).operation) == ("rank", (3,), "UNLOGGED")


def test_what_goes_the_other_way_or_is_a_trifle_explains_nothing() -> None:
    found = compare_runs(
        runs(1, longer(9.0, quantity("FORWARD", 20.0), quantity("DATA", 10.5))),
        runs(2, longer(0.0, quantity("FORWARD", 30.0), quantity("DATA", 10.0))),
    )
    assert found.causes == ()


def test_more_bytes_are_told_of_single_runs_too() -> None:
    found = compare_runs(
        [summary(1.0, quantity("ALLREDUCE", 9.0, n_bytes=2e6))],
        [summary(1.0, quantity("ALLREDUCE", 9.0, n_bytes=1e6))],
    )
    assert (found.verdict, [cause.kind for cause in found.causes]) == ("undecided", ["bytes"])


def test_what_was_not_kept_as_it_takes_little_is_not_gone() -> None:
    others = [quantity(f"OP{at}", 3.0) for at in range(MOST_OPERATIONS)]
    small, large = quantity("SMALL", 2.0), quantity("LARGE", 4.0)
    with_them = [summary(1.0, small, large)] * 3
    assert [
        cause.operation
        for cause in compare_runs([summary(1.0, *others)] * 3, with_them).causes
        if cause.kind == "gone"
    ] == ["LARGE"]
    assert {cause.operation for cause in compare_runs([summary()] * 3, with_them).causes} == {
        "SMALL",
        "LARGE",
    }


@pytest.mark.parametrize(
    ("ms", "step_ms", "explains"),
    [(1.0, 10.0, True), (0.99, 10.0, False), (-1.0, 10.0, False), (-1.0, -10.0, True), (1.0, -10.0, False)],
)
def test_what_goes_the_way_of_the_step_explains_it_from_a_tenth_of_it_on(
    ms: float, step_ms: float, explains: bool
) -> None:
    assert _explains(ms, step_ms) is explains


@pytest.mark.parametrize("step_ms", [-0.5, 0.5, 9.0])
def test_a_rank_explains_a_change_however_short_steps_are(step_ms: float) -> None:
    slow = [[summary(verdict=SummarizedVerdict("rank", True, [1], "DATA", abs(step_ms)))]]
    nobody = [[summary(verdict=SummarizedVerdict("healthy", True, [], "", 0.0))]]
    sides = (slow, nobody) if step_ms > 0 else (nobody, slow)
    (found,) = causes_of(*sides, [], step_ms)
    assert (found.kind, found.ranks, found.ms - found.against_ms) == ("rank", (1,), step_ms)
