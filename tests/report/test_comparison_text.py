"""The text of a comparison: the verdict first, what is not alike before it, differences by their size."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any

import pytest
from compared_runs import PARTS_MS, noisy, quantity, summary
from slow import slow

from timing_logger.analysis.comparison.compare import compare_runs
from timing_logger.report import comparison_text
from timing_logger.report.comparison import _note
from timing_logger.results.comparison import Comparison
from timing_logger.words.comparison import DIVIDED


def told(found: Comparison, width: int = 200, *, everything: bool = False) -> str:
    return re.sub(r"\s+", " ", comparison_text(found, width, everything=everything))


def test_the_verdict_comes_before_what_differs() -> None:
    lines = comparison_text(
        compare_runs(noisy(4, 0.001, 1, slower=0.1), noisy(4, 0.001, 2)), 100
    ).splitlines()
    verdict = next(at for at, line in enumerate(lines) if line.startswith("Verdict: REGRESSED."))
    table = next(at for at, line in enumerate(lines) if line.startswith("what "))
    assert verdict < table


def test_what_is_not_alike_is_said_first() -> None:
    found = compare_runs([summary(n_ranks=4)] * 3, [summary(n_ranks=2)] * 3)
    assert told(found).startswith("Not alike: ranks (4 against 2).")


def test_runs_recorded_after_the_others_are_warned_of() -> None:
    found = compare_runs([summary(began_unix_ns=2)], [summary(began_unix_ns=1)])
    assert "All runs were recorded after those that they are compared with." in told(found)
    assert "record them in turn" in told(found)


def test_a_change_by_parts_says_what_the_step_shows() -> None:
    def uneven(seed: int, more_ms: float) -> list:
        return [
            summary(parts_ms={**PARTS_MS, "own work": run.step_mean_ms, "not timed": 5.0 + more_ms})
            for run in noisy(5, 0.1, seed)
        ]

    text = told(compare_runs(uneven(1, 6.0), uneven(2, 0.0)))
    assert "Verdict: REGRESSED. Code that no row covers takes 6.00 ms more in each step" in text
    assert "shows nothing by itself, nor does it contradict" in text


def test_an_undecided_one_says_what_is_excluded_and_how_many_runs_would_decide() -> None:
    text = told(compare_runs(noisy(4, 0.03, 1), noisy(4, 0.03, 2)))
    assert "Verdict: UNDECIDED." in text
    assert re.search(r"A slowdown of more than \d+\.\d% is excluded\.", text)
    assert re.search(r"Equal runs lie \d\.\d% apart \(a standard deviation\): to decide about", text)
    assert re.search(r"With those here, a slowdown of \d+\.\d% is found nine times in ten\.", text)


@pytest.mark.parametrize(
    ("here", "there", "said"),
    [
        (
            [summary()],
            [summary()],
            "It takes 3 runs on each side to tell a change from chance, and these are 1",
        ),
        ([summary()] * 3, [summary(steps_are="run")] * 3, "What a step is differs between the runs"),
        ([summary(1.002)] * 3, [summary()] * 3, "That is less than the 1.0% that count"),
    ],
)
def test_why_it_is_undecided_is_said(here: list, there: list, said: str) -> None:
    assert said in told(compare_runs(here, there))


def test_commits_are_named_in_short() -> None:
    found = compare_runs([summary(commit="a" * 40)], [summary()])
    assert "Commits: aaaaaaaaaaaa against unknown." in told(found)


def test_what_was_lost_is_said() -> None:
    assert "3 records of these runs were lost" in told(compare_runs([summary(n_lost=3)], [summary()]))


def test_an_operation_of_one_side_is_marked() -> None:
    found = compare_runs([summary(1.0, quantity("SAVE", 30.0))] * 3, [summary()] * 3)
    assert "SAVE (new)" in told(found)
    assert "SAVE (gone)" in told(compare_runs([summary()] * 3, [summary(1.0, quantity("SAVE", 30.0))] * 3))


def test_only_the_largest_differences_are_shown_but_for_all() -> None:
    here = summary(1.0, *(quantity(f"OP{at}", 10.0 + at) for at in range(40)))
    there = summary(1.0, *(quantity(f"OP{at}", 10.0) for at in range(40)))
    found = compare_runs([here], [there])
    assert "OP39" in told(found)
    assert "OP5 " not in told(found)
    assert "27 are left out" in told(found)
    assert "OP5 " in told(found, everything=True)


def test_names_cannot_act_on_a_terminal() -> None:
    bad = "\x1b[31mX\u202e"
    here = [summary(1.2, quantity(bad, 30.0, n_bytes=2e6), hosts=[bad], versions={bad: bad})] * 3
    there = [summary(1.0, quantity(bad, 20.0, n_bytes=1e6), hosts=["b"], versions={bad: "1"})] * 3
    text = comparison_text(compare_runs(here, there), 100)
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize("width", [60, *(slow(width, "wider than 60") for width in (80, 140))])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    found = compare_runs(noisy(4, 0.001, 1, slower=0.1), noisy(4, 0.001, 2))
    assert max(map(len, comparison_text(found, width).splitlines())) <= width


@pytest.mark.parametrize("does", ["divided", ""])
@pytest.mark.parametrize("low", [0.5, math.nan])
def test_below_a_table_its_columns_and_marks_are_explained_where_it_has_them(does: str, low: float) -> None:
    one: Any = SimpleNamespace(does=does, shift=SimpleNamespace(low=low))
    note = _note([one])
    assert (DIVIDED in note) == (does == "divided")
    assert ("Between: " in note) == math.isfinite(low)
