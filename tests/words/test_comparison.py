"""A comparison in sentences: shares with the digits that say something, and each case in its own words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest
from compared_runs import comparison, side, summary

from timing_logger.results.comparison import Courses, PartChange, Side, Since, Unlike
from timing_logger.words.comparison import (
    _between,
    _percent,
    a_step,
    sides_sentences,
    since_sentence,
    told_of_comparison,
    unlike_sentences,
    verdict_of_comparison,
    what_is_compared,
    what_is_counted,
)


def undecided(why: str, step: Mapping[str, Any] | None = None, **fields: Any) -> list[str]:
    return told_of_comparison(comparison(step, verdict="undecided", why=why, basis="", **fields))


TAKES = "A step takes 110.000 ms against 100.000 ms, 10.0% longer"
INTERVAL = "(between 5.0% and 15.0% longer, 99.5% sure)."
LIE_APART = "Equal runs lie 2.0% apart (a standard deviation)"


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (0.1234, "12.3%"), (-0.1234, "-12.3%"), (9.9949, "999.5%"), (10.0, "1,000%"), (-10.0, "-1,000%"),
        (9999.0, "999,900%"), (1e4, "1e+06%"),
    ],
)  # fmt: skip
def test_a_large_share_has_no_decimals_and_a_huge_one_only_its_magnitude(part: float, text: str) -> None:
    assert _percent(part) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.01, 0.02, "1.0% and 2.0% longer"), (-0.02, -0.01, "1.0% and 2.0% shorter"),
        (-0.01, 0.02, "1.0% shorter and 2.0% longer"), (0.0, 0.02, "0.0% and 2.0% longer"),
        (-0.02, 0.0, "0.0% and 2.0% shorter"),
    ],
)  # fmt: skip
def test_an_interval_on_one_side_of_zero_names_its_direction_once(low: float, high: float, text: str) -> None:
    assert _between(low, high) == text


# -- the verdict -----------------------------------------------------------------------------------------


def test_a_change_that_the_step_shows_is_told_with_its_interval() -> None:
    assert verdict_of_comparison(comparison()) == f"Verdict: REGRESSED. {TAKES} {INTERVAL}"


def test_a_change_that_is_too_small_to_count_is_said_to_be_that() -> None:
    assert undecided("small") == [
        f"{TAKES} {INTERVAL}", "That is less than the 3.0% that count (--max-regression)."
    ]  # fmt: skip


def test_a_change_that_may_be_chance_says_what_is_excluded_and_what_would_decide() -> None:
    assert undecided("not shown") == [
        f"{TAKES} {INTERVAL}",
        "It may be chance.",
        "A slowdown of more than 15.0% is excluded.",
        f"{LIE_APART}: to decide about 10.0% takes 4 on each side.",
        "With those here, a slowdown of 3.0% is found nine times in ten.",
    ]


def test_where_all_of_the_interval_is_faster_no_slowdown_is_excluded_below_none() -> None:
    assert (
        undecided("not shown", {"low": -0.2, "high": -0.1})[2] == "A slowdown of more than 0.0% is excluded."
    )


@pytest.mark.parametrize(
    ("step", "lacks"),
    [({"high": inf}, "is excluded"), ({"finds": inf}, "nine times"), ({"spread": nan}, "apart")],
)
def test_what_is_not_known_is_not_told(step: dict[str, float], lacks: str) -> None:
    assert not any(lacks in sentence for sentence in undecided("not shown", step))


def test_what_a_thousand_runs_would_not_decide_is_told_about_the_bound_at_least() -> None:
    *_, last = undecided("not shown", {"runs_needed": None, "change": -0.01})
    assert last == f"{LIE_APART}: a thousand on each side would not decide about 3.0%."


def test_runs_without_any_spread_are_told_to_lie_nothing_apart() -> None:
    assert any("lie 0.0% apart" in sentence for sentence in undecided("not shown", {"spread": 0.0}))


def test_batches_are_told_to_lie_apart_where_they_count() -> None:
    assert any(
        sentence.startswith("Equal batches lie 2.0% apart")
        for sentence in undecided("not shown", in_batches=True)
    )


def test_few_runs_are_counted_before_the_figures() -> None:
    assert undecided("few runs", {"spread": nan}, here=side(2), against=side(1)) == [
        "It takes 3 runs on each side to tell a change from chance, and these are 2 against 1: equal runs "
        "differ, too.",
        f"{TAKES}.",
    ]


@pytest.mark.parametrize(("n", "batches"), [(1, "1 batch"), (2, "2 batches")])
def test_few_batches_are_counted_before_the_figures(n: int, batches: str) -> None:
    assert undecided("few batches", against=side(3, n)) == [
        f"The history has {batches} of runs, and it takes 6 to know how far these lie apart.", f"{TAKES}.",
    ]  # fmt: skip


def test_of_different_steps_the_figures_are_said_to_be_of_no_use() -> None:
    first, second, figures = undecided("different steps")
    assert first.startswith("What a step is differs between the runs")
    assert (second, figures) == ("The figures are of no use.", f"{TAKES}.")


def part(name: str, change_ms: float, *, is_shown: bool = True) -> PartChange:
    """Return a part that changed by this, give or take 1 ms."""
    return PartChange(name, 20.0 + change_ms, 20.0, change_ms, change_ms - 1, change_ms + 1, is_shown)


def test_what_parts_show_is_told_with_what_the_step_does_not() -> None:
    parts = (part("own work", 6.0), part("transfer", -4.0), part("waiting", 9.0, is_shown=False))
    assert told_of_comparison(comparison(basis="account", parts=parts)) == [
        "The own work of the ranks takes 6.00 ms more in each step (between 5.00 and 7.00 ms).",
        "Transfers take 4.00 ms less in each step (between 3.00 and 5.00 ms).",
        "That is 2.0% of a step.",
        "Equal runs lie 2.0% apart, so that the step as a whole is 10.0% longer (between 5.0% and 15.0% "
        "longer) and shows nothing by itself, nor does it contradict.",
    ]


# -- since when ------------------------------------------------------------------------------------------

SINCE = Since("iterations", 1024, 1024, 1024, -0.01, 0.2, 0.21, 0.2, 0.22)


def test_nothing_is_said_of_when_if_that_is_not_shown() -> None:
    assert since_sentence(comparison()) == ""


def test_from_where_on_sides_differ_otherwise_comes_last() -> None:
    *_, last = told_of_comparison(comparison(since=SINCE))
    assert last == (
        "The sides do not differ alike all along: before iteration 1,024 steps are 1.0% shorter than on the "
        "other side, and from there on 20.0% longer than on the other side. By that change they became "
        "21.0% longer (between 20.0% and 22.0% longer, 99.5% sure)."
    )


def test_between_which_iterations_it_lies_is_told_where_several_may_be_it() -> None:
    found = since_sentence(comparison(since=SINCE._replace(earliest=512, latest=2048)))
    assert found.endswith(", 99.5% sure), anywhere from iteration 512 to 2,048.")


@pytest.mark.parametrize(
    ("steps_are", "counted_by", "name"),
    [
        ("iterations", None, "iteration"), ("rounds", None, "round"), ("run", None, "iteration"),
        ("rounds", "iterations", "round"), ("iterations", "steps", "step"), ("rounds", "steps", "step"),
    ],
)  # fmt: skip
def test_what_is_counted_is_named(steps_are: str, counted_by: str | None, name: str) -> None:
    nobody: Any = None
    courses = None if counted_by is None else Courses(counted_by, 4, (0,), nobody, nobody)
    assert what_is_counted(comparison(here=side(steps_are=steps_are), courses=courses)) == name


# -- what is compared ------------------------------------------------------------------------------------


def sides(**fields: Any) -> list[str]:
    return list(sides_sentences(comparison(**fields)))


def test_the_sides_are_told_with_their_runs_ranks_and_steps() -> None:
    here = Side([summary(n_ranks=1, n_warm_up=0)], 1)
    against = Side([summary(n_ranks=1024, n_steps=2000), summary(n_ranks=2, n_steps=90, n_warm_up=0)], 2)
    assert sides(here=here, against=against) == [
        "1 run of 1 rank, 90 steps against 2 runs of 2, 1,024 ranks, 90 to 2,000 steps after the first 10."
    ]


def test_all_that_is_to_be_told_of_the_sides_is_told() -> None:
    here = Side([summary(commit="b" * 40, n_lost=1), summary(commit="a" * 40)], 2)
    found = comparison(
        here=here, in_batches=True, paired=True, order="after", against=side(3, 6, n_lost=500),
        unlike=(Unlike("ranks", ("2", "3"), ("4",)), Unlike("hosts", ("a",), ("b",))),
    )  # fmt: skip
    first, second, said, commits, order, lost = what_is_compared(found)
    assert (first, second) == ("Not alike: ranks (2; 3 against 4).", "Not alike: hosts (a against b).")
    assert list(unlike_sentences(found)) == ["ranks (2; 3 against 4).", "hosts (a against b)."]
    assert said.endswith(
        "3 runs of 2 ranks, 90 steps after the first 10 of a history, in 6 batches, in pairs."
    )
    assert commits == f"Commits: {'a' * 12}, {'b' * 12} against unknown."
    assert order.startswith("All runs were recorded after those that they are compared with.")
    assert lost == "1,501 records of these runs were lost or could not be read."


@pytest.mark.parametrize(("order", "is_told"), [("before", True), ("in turn", False), ("", False)])
def test_only_runs_that_were_all_made_before_or_after_the_others_are_warned_of(
    order: str, is_told: bool
) -> None:
    assert any(f"were recorded {order} those" in sentence for sentence in sides(order=order)) == is_told


# -- what a step is called -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps_are", "name"),
    [
        (["iterations"], "A step"), (["rounds", "rounds"], "A round"), (["run"], "The run"),
        (["rounds", "run"], "A step"),
    ],
)  # fmt: skip
def test_a_step_is_called_what_all_runs_have(steps_are: list[str], name: str) -> None:
    runs = [replace(summary(), steps_are=kind) for kind in steps_are]
    assert a_step(comparison(here=Side(runs, len(runs)))) == name
