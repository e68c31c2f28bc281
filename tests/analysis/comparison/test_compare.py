"""The verdict on two sides: what is called slower, on what it rests, and what is undecided."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from compared_runs import PARTS_MS, noisy, quantity, summary
from slow import slow

from timing_logger.analysis.comparison.between_runs import time_shift
from timing_logger.analysis.comparison.compare import compare_runs, parts_of_step
from timing_logger.analysis.comparison.differences import floor_of
from timing_logger.errors import ConfigurationError


@pytest.mark.slow("that a slower program is called so is quick by the command")
def test_a_program_that_is_five_percent_slower_is_called_so() -> None:
    found = compare_runs(noisy(5, 0.005, 1, slower=0.05), noisy(5, 0.005, 2))
    assert (found.verdict, found.basis, found.why) == ("regressed", "step", "")
    assert found.step.low < 0.05 < found.step.high
    assert found.step.change == pytest.approx(0.05, abs=0.01)


def test_a_program_that_is_faster_is_called_so() -> None:
    assert compare_runs(noisy(5, 0.005, 1, slower=-0.05), noisy(5, 0.005, 2)).verdict == "improved"


@pytest.mark.parametrize("n", [5, slow(100, "more of the same")])
def test_equal_programs_are_hardly_ever_told_apart(n: int) -> None:
    verdicts = Counter(
        compare_runs(noisy(5, 0.02, 2 * seed), noisy(5, 0.02, 2 * seed + 1)).verdict for seed in range(n)
    )
    assert verdicts["regressed"] + verdicts["improved"] <= n // 25  # one in 50 at most is expected
    assert verdicts["undecided"] >= n - n // 25


@pytest.mark.parametrize("n", [1, 2])
def test_of_one_or_two_runs_nothing_is_decided(n: int) -> None:
    found = compare_runs(noisy(n, 0.001, 1, slower=1.0), noisy(5, 0.001, 2))
    assert (found.verdict, found.why, found.parts, found.causes) == ("undecided", "few runs", (), ())


def test_what_is_slower_by_less_than_the_bound_is_no_regression() -> None:
    runs, against = noisy(5, 0.001, 1, slower=0.03), noisy(5, 0.001, 2)
    found = compare_runs(runs, against, max_regression=0.05)
    assert (found.verdict, found.why) == ("undecided", "small")
    assert compare_runs(runs, against, max_regression=0.02).verdict == "regressed"


def test_how_many_runs_would_decide_is_said_where_they_do_not() -> None:
    found = compare_runs(noisy(4, 0.05, 1, slower=0.03), noisy(4, 0.05, 2))
    assert found.why == "not shown"
    assert found.step.runs_needed is not None
    assert found.step.runs_needed > 4
    assert found.step.finds > 0.05


# -- by the parts of the step --------------------------------------------------------------------------


def uneven(n: int, seed: int, **longer_ms: float) -> list:
    """Runs whose own work is uneven, and whose untimed code is not."""
    parts = [{**PARTS_MS, "own work": run.step_mean_ms} for run in noisy(n, 0.1, seed)]
    return [
        summary(parts_ms={name: ms + longer_ms.get(name.replace(" ", "_"), 0.0) for name, ms in part.items()})
        for part in parts
    ]


def test_a_part_that_takes_longer_shows_it_where_the_step_is_too_uneven() -> None:
    found = compare_runs(uneven(5, 1, not_timed=6.0), uneven(5, 2))
    assert (found.verdict, found.basis) == ("regressed", "account")
    assert [part.part for part in found.parts if part.is_shown] == ["not timed"]
    assert found.shown_ms == pytest.approx(6.0)
    assert [cause.kind for cause in found.causes] == ["not timed"]


def test_time_that_moved_from_one_part_into_another_is_no_change() -> None:
    moved = {**PARTS_MS, "own work": 90.0, "not timed": -5.0 + PARTS_MS["not timed"], "waiting": 0.0}
    found = compare_runs([summary(parts_ms=moved)] * 4, [summary()] * 4)
    assert found.verdict == "undecided"


def test_parts_show_nothing_where_other_operations_are_timed() -> None:
    timed = [
        replace(run, quantities=[*run.quantities, quantity("LOSS", 6.0)])
        for run in uneven(5, 1, not_timed=-4.0)
    ]
    found = compare_runs(timed, uneven(5, 2))
    assert (found.verdict, found.why) == ("undecided", "not shown")


def test_a_part_that_the_step_contradicts_shows_nothing() -> None:
    """Code moved out of a timed block that is too uneven to show it: the step excludes that 6 ms were
    added."""

    def of(own_work_ms: float, not_timed_ms: float) -> list:
        apart = (-2.7, -1.35, 0.0, 1.35, 2.7)
        return [
            summary(parts_ms={**PARTS_MS, "own work": own_work_ms + ms, "not timed": not_timed_ms})
            for ms in apart
        ]

    found = compare_runs(of(74.0, 11.0), of(80.0, 5.0))
    assert [part.part for part in found.parts if part.is_shown] == ["not timed"]
    assert found.step.high < 0.06
    assert (found.verdict, found.why) == ("undecided", "not shown")


# -- pairs, histories, and what cannot be compared ------------------------------------------------------


def test_pairs_show_what_runs_that_drift_together_do_not() -> None:
    drift = [1.0, 1.3, 0.8, 1.5, 1.1]
    runs, against = [summary(1.03 * one) for one in drift], [summary(one) for one in drift]
    assert compare_runs(runs, against).why == "not shown"
    assert compare_runs(runs, against, paired=True).verdict == "regressed"


def batches(n: int, slower: float = 0.0, name: str = "batch") -> list:
    return [
        replace(summary((1 + 0.01 * (-1) ** at) * (1 + slower)), batch=f"{name}{at}")
        for at in range(n)
        for _ in range(5)
    ]


def test_runs_of_one_batch_count_once_against_a_history() -> None:
    found = compare_runs([summary(1.03)] * 5, batches(6), in_batches=True)
    assert (found.here.n_units, found.against.n_units) == (1, 6)
    assert (found.verdict, found.why) == ("undecided", "not shown")
    assert compare_runs([summary(1.2)] * 5, batches(6), in_batches=True).verdict == "regressed"


def test_a_history_of_few_batches_decides_nothing() -> None:
    found = compare_runs([summary(2.0)] * 5, batches(5), in_batches=True)
    assert (found.verdict, found.why) == ("undecided", "few batches")


def test_steps_of_different_kinds_are_not_compared() -> None:
    found = compare_runs([summary(2.0)] * 3, [summary(steps_are="rounds")] * 3)
    assert (found.verdict, found.why) == ("undecided", "different steps")


def test_what_is_not_alike_is_told() -> None:
    here = summary(n_ranks=4, hosts=["a"], versions={"torch": "2.9", "python": "3.11"})
    there = summary(n_ranks=2, hosts=["b"], versions={"torch": "2.8", "python": "3.11"})
    found = compare_runs([here], [there])
    assert [one.about for one in found.unlike] == ["ranks", "hosts", "version of torch"]
    assert found.unlike[2][1:] == (("2.9",), ("2.8",))


@pytest.mark.parametrize(
    ("here", "there", "order"),
    [
        ((3, 4), (1, 2), "after"),
        ((1, 2), (3, 4), "before"),
        ((1, 3), (2, 4), "in turn"),
        ((None,), (1,), "unknown"),
    ],
)
def test_it_is_told_when_the_runs_were_recorded(here: tuple, there: tuple, order: str) -> None:
    sides = ([summary(began_unix_ns=at) for at in side] for side in (here, there))
    assert compare_runs(*sides).order == order


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([], [1]), "there is no run on one side"),
        (([1], []), "there is no run on one side"),
    ],
)
def test_a_side_without_a_run_is_refused(arguments: tuple, said: str) -> None:
    sides = [[summary() for _ in side] for side in arguments]
    with pytest.raises(ConfigurationError, match=said):
        compare_runs(*sides)


@pytest.mark.parametrize("bound", [-0.1, 10.0, float("nan")])
def test_a_bound_that_is_no_part_is_refused(bound: float) -> None:
    with pytest.raises(ConfigurationError, match="max_regression"):
        compare_runs([summary()], [summary()], max_regression=bound)


def test_pairs_of_different_numbers_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="paired: 2 runs and 1 are no pairs"):
        compare_runs([summary()] * 2, [summary()], paired=True)


def test_a_run_that_is_given_twice_is_refused() -> None:
    one, other = (summary(run_id="a", began_unix_ns=at) for at in (1, 2))
    compare_runs([one], [other])
    for sides in (([one, one], [other]), ([one], [one, other])):
        with pytest.raises(ConfigurationError, match="run 'a' is given twice"):
            compare_runs(*sides)


def test_pauses_are_no_operations_that_somebody_times() -> None:
    paused = [
        replace(run, quantities=[*run.quantities, quantity("GC", 6.0)]) for run in uneven(5, 1, not_timed=6.0)
    ]
    assert compare_runs(paused, uneven(5, 2)).basis == "account"


def test_the_intervals_of_the_four_parts_hold_together_with_99_5_percent() -> None:
    sides = [uneven(5, seed) for seed in (1, 2)]
    units = [[[run] for run in runs] for runs in sides]
    own_ms = [[run.quantities[0].mean_ms for run in runs] for runs in sides]
    shift = time_shift(*own_ms, floor_of(*units), confidence=1 - 0.005 / 4).shift
    part = parts_of_step(*units, paired=False)[0]
    assert (part.low_ms, part.high_ms) == pytest.approx((shift.low, shift.high))
