"""The text of what-if: how sure the answer is, and where it rests on an assumption, that it does."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from timing_logger.analysis import Fix, WhatIf
from timing_logger.report import what_if_text
from timing_logger.report.what_if import answer_sentence
from timing_logger.results import facts
from timing_logger.results.plain import UNLOGGED
from timing_logger.results.what_if import Slowest

NO_TABLE = pd.DataFrame()


def answer(fix: str = "work=even", **fields: object) -> WhatIf:
    known = {
        "run_ms": 10_000.0, "gain_ms": 1_000.0, "gain_low_ms": 800.0, "gain_high_ms": 1_200.0,
        "assumed_gain_ms": None, "slowest": None, "why_unjudged": None, "plays_again": True,
    }  # fmt: skip
    return WhatIf(fixes=(Fix.parse(fix),), **{**known, **fields})  # type: ignore[arg-type]


def told(found: WhatIf, best: pd.DataFrame = NO_TABLE) -> str:
    return re.sub(r"\s+", " ", what_if_text(found, best, NO_TABLE, 200))


def test_an_answer_that_assumes_nothing_says_within_what_it_is() -> None:
    said = told(answer())
    assert "would have taken 9.00 s: 1.00 s less" in said
    assert "it would take that within 0.20 s" in said
    assert "does not tell" not in said


def test_an_answer_that_assumes_something_says_what_else_may_be_so_and_spans_it() -> None:
    said = told(answer(assumed_gain_ms=(0.0, 1_900.0), gain_low_ms=-100.0, gain_high_ms=2_000.0))
    assert "No rank had now more and now less to do, so that the run does not tell" in said
    assert "It is 0 s less if the ranks with more are only slow, and at most 1.90 s less if" in said
    assert "it would take 8.00 s to 10.10 s, with 95% confidence" in said


def test_the_table_of_repairs_says_it_of_even_work() -> None:
    row = {"gain_ms": 900.0, "gain_low_ms": -50.0, "gain_high_ms": 1900.0, "share": 0.09, "of_all": 0.5}
    best = pd.DataFrame([{"fix": "work=even", **row}])
    assert "the interval of work=even spans all that may be so" in told(answer("rank=2"), best)
    assert "work=even" not in told(answer("rank=2"), best.assign(fix="rank=2"))


@pytest.mark.parametrize(
    ("gain_ms", "said"),
    [
        (49.0, "would have taken as long, within 0.5%."),
        (-49.0, "would have taken as long, within 0.5%."),
        (50.0, "would have taken 9.95 s: 0.05 s less, 0.5% of it."),
        (-2_000.0, "would have taken 12.00 s: 2.00 s more, 20.0% of it."),
        (11_000.0, "would have taken 0 s: 11.00 s less, 110.0% of it."),
    ],
)
def test_what_the_run_would_have_taken_is_told_unless_it_is_as_long(gain_ms: float, said: str) -> None:
    assert said in answer_sentence(answer(gain_ms=gain_ms))


def test_a_gain_without_an_interval_tells_none() -> None:
    assert "Made again" not in answer_sentence(answer(gain_low_ms=1000.0, gain_high_ms=1000.0))


@pytest.mark.parametrize("plays_again", [True, False])
def test_it_is_said_if_the_run_was_not_played_again(plays_again: bool) -> None:
    said = answer_sentence(answer(plays_again=plays_again))
    assert ("This is by steps, each as long as its slowest rank works" in said) != plays_again


def test_who_would_cost_most_then_comes_last() -> None:
    def last(operation: str) -> str:
        return answer_sentence(
            answer(slowest=Slowest(rank=3, operation=operation, cost_ms=500.0))
        ).rpartition("Rank")[2]

    assert last("load") == " 3 would cost most then: 0.50 s, most in load."
    assert last(UNLOGGED) == " 3 would cost most then: 0.50 s, most in code that is not timed."
    assert last("") == " 3 would cost most then: 0.50 s."


def test_that_nobody_would_cost_much_is_said_only_where_somebody_could_be_judged() -> None:
    assert answer_sentence(answer()).endswith(" No rank would cost it 1% then.")
    said = answer_sentence(answer(why_unjudged=facts.NoRows()))
    assert said.endswith(" Nobody could be judged in it: there are no rows.")


@pytest.mark.parametrize(
    ("fix", "words"),
    [
        ("rank=2", "rank 2 like its peers"),
        ("host=a", "all ranks of a like their peers"),
        ("operation=load", "load as usual on all ranks"),
        (f"operation={UNLOGGED}", "code that is not timed as usual on all ranks"),
        (f"without={UNLOGGED}", "no time in code that is not timed"),
        ("cause=GC", "nothing lost to GC"),
        ("transfers=usual", "all transfers as usual"),
        ("work=even", "work shared evenly"),
        ("bytes=0.5", "0.5 of the bytes in each transfer"),
        ("group=8", "collectives among 8 ranks"),
    ],
)
def test_a_repair_is_told_in_words(fix: str, words: str) -> None:
    assert answer_sentence(answer(fix)).startswith(f"With {words}, this run of 10.00 s would have taken")


def test_it_is_said_if_no_single_repair_would_help() -> None:
    assert what_if_text(None, NO_TABLE, NO_TABLE, 99).strip() == (
        "No single repair would make this run shorter by 1%."
    )


def test_repairs_are_shown_in_seconds() -> None:
    row = {"gain_ms": 900.0, "gain_low_ms": -50.0, "gain_high_ms": 1900.0, "share": 0.09, "of_all": 0.5}
    heads, _, cells, *_ = what_if_text(
        None, pd.DataFrame([{"fix": "rank=2", **row}]), NO_TABLE, 200
    ).splitlines()
    assert heads.split() == ["repair", "gain", "s", "%", "of", "run", "made", "again,", "s", "of", "all"]
    assert cells.split() == ["rank=2", "0.90", "9.0%", "-0.05", "to", "1.90", "50.0%"]


def test_a_transfer_whose_bytes_take_no_time_has_no_bandwidth() -> None:
    row = {
        "operation": "ALLREDUCE", "ranks": 4, "hosts": 2, "count": 9, "least_bytes": 8.0, "most_bytes": 1e6,
        "latency_us": 12.34, "error": 0.1,
    }  # fmt: skip
    transfers = pd.DataFrame([{**row, "gb_per_s": 1.5}, {**row, "gb_per_s": float("inf")}])
    said = what_if_text(None, NO_TABLE, transfers, 200)
    cells = [line.split()[-3:] for line in said.splitlines() if line.startswith("ALLREDUCE")]
    assert cells == [["12.3", "1.500", "10.0%"], ["12.3", "-", "10.0%"]]
    assert "What transfers take: a latency" in said
