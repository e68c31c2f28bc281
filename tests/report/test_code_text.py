"""Sentences on the code that ran say how many samples they rest on, and nothing of too few."""

from __future__ import annotations

import pandas as pd
import pytest

from timing_logger.analysis import Verdict
from timing_logger.report.code import (
    FEWEST_SAMPLES,
    code_of_verdict,
    code_out_of_rows,
    code_sentences,
    ranks_out_of_rows,
    ranks_to_ask_about,
)
from timing_logger.results.plain import UNLOGGED


def code(*functions: tuple[int, str, str, int], call: str = "") -> pd.DataFrame:
    """Return what ``sampled_code`` returns: of each function its rank, operation, name and samples."""
    names = ["rank", "operation", "function", "samples"]
    plain = {"incarnation": 1, "file": "a/b.py", "line": 34, "library_call": call, "share": 0.0}
    return pd.DataFrame(functions, columns=names).assign(**plain)


def named(*ranks: int, operation: str = "DATA") -> Verdict:
    return Verdict(verdict="rank", ranks=ranks, operation=operation)


def test_the_functions_of_the_named_rank_in_the_slow_operation_are_told_most_first() -> None:
    seen = code(
        (2, "DATA", "load", 20), (2, "DATA", "augment", 70), (2, "DATA", "seed", 10), (2, "B", "x", 99)
    )
    assert list(code_of_verdict(named(2), seen)) == [
        "Of 100 stack samples of rank 2 in DATA, 70% are in augment (a/b.py:34) and 20% are in load "
        "(a/b.py:34)."
    ]


def test_what_a_line_calls_in_a_library_is_told_and_all_is_no_percentage() -> None:
    seen = code((2, "DATA", "load", 20), call="resize (PIL/Image.py)")
    assert list(code_of_verdict(named(2), seen)) == [
        "Of 20 stack samples of rank 2 in DATA, all are in load (a/b.py:34), calling resize (PIL/Image.py)."
    ]


def test_ranks_that_were_in_the_same_function_share_a_sentence() -> None:
    seen = code(
        (2, "DATA", "load", 20), (5, "DATA", "load", 10), (5, "DATA", "seed", 5), (7, "DATA", "x", 15)
    )
    assert list(code_of_verdict(named(2, 5, 7), seen)) == [
        "Of 35 stack samples of ranks 2 and 5 in DATA, 86% are in load (a/b.py:34) and 14% are in seed "
        "(a/b.py:34).",
        "Of 15 stack samples of rank 7 in DATA, all are in x (a/b.py:34).",
    ]


def test_of_too_few_samples_nothing_is_told() -> None:
    for n, sentences in ((FEWEST_SAMPLES - 1, 0), (FEWEST_SAMPLES, 1)):
        assert len(list(code_of_verdict(named(2), code((2, "DATA", "load", n))))) == sentences


def test_samples_that_are_spread_over_many_functions_are_said_to_be_so() -> None:
    seen = code(*((2, "DATA", f"f{i}", 1) for i in range(20)))
    assert list(code_of_verdict(named(2), seen)) == [
        "Of 20 stack samples of rank 2 in DATA, no function has a tenth."
    ]


def test_time_between_rows_is_that_of_a_verdict_without_an_operation() -> None:
    seen = code((2, "", "load", 20))
    expected = "Of 20 stack samples of rank 2 in no row, all are in load (a/b.py:34)."
    assert list(code_of_verdict(named(2, operation=UNLOGGED), seen)) == [expected]
    assert code_sentences(named(2, operation=UNLOGGED), {2: 0.8}, seen) == [expected]


def test_a_verdict_that_names_nobody_asks_about_no_rank() -> None:
    assert ranks_to_ask_about(Verdict(verdict="healthy")) == []
    assert list(code_of_verdict(Verdict(verdict="healthy"), code((0, "", "load", 20)))) == []


def account(*parts: tuple[int, str, float]) -> pd.DataFrame:
    rows = [
        {"rank": rank, "incarnation": 1, "thread": "MainThread", "is_main": True, "what": what,
         "operation": "", "waited_for": None, "count": 1, "ms": ms, "share": 0.0}
        for rank, what, ms in parts
    ]  # fmt: skip
    return pd.DataFrame(rows).astype({"waited_for": "Int64"})


def test_ranks_are_asked_about_that_spent_a_quarter_of_their_time_in_no_row() -> None:
    found = ranks_out_of_rows(account(
        (0, "not timed", 24.0), (0, "own work", 76.0), (1, "not timed", 25.0), (1, "own work", 75.0),
        (2, "not timed", 80.0), (2, "transfer", 20.0),
    ))  # fmt: skip
    assert found == {2: pytest.approx(0.8), 1: pytest.approx(0.25)}


def test_what_ran_in_no_row_is_told_with_the_part_of_the_time() -> None:
    seen = code((1, "", "augment", 71), (1, "", "seed", 29), (2, "", "augment", 100))
    assert list(code_out_of_rows({1: 0.803, 2: 0.61}, seen)) == [
        "61 to 80% of the time of ranks 1 and 2 is in no row: of 200 stack samples there, 86% are in augment "
        "(a/b.py:34) and 14% are in seed (a/b.py:34)."
    ]
    (sentence,) = code_out_of_rows({1: 1.0, 2: 0.61}, seen)
    assert sentence.startswith("61 to 100% of the time of ranks 1 and 2 is in no row")
    (sentence,) = code_out_of_rows({1: 0.803}, seen)
    assert sentence.startswith("80% of the time of rank 1 is in no row: of 100 stack samples there, 71%")


def test_names_cannot_break_the_line() -> None:
    (sentence,) = code_of_verdict(named(2), code((2, "DATA", "a\nb", 20)))
    assert "\n" not in sentence


def test_three_ranks_are_asked_about_at_most() -> None:
    assert ranks_to_ask_about(named(4, 3, 2, 1)) == [4, 3, 2]
    untimed = [
        part for rank in range(4) for part in ((rank, "not timed", 90.0 - rank), (rank, "own work", 9.0))
    ]
    assert list(ranks_out_of_rows(account(*untimed))) == [0, 1, 2]


def test_a_function_with_a_tenth_of_the_samples_is_told() -> None:
    for n_rare, told in ((10, " and 10% are in rare (a/b.py:34)."), (9, "augment (a/b.py:34).")):
        seen = code((2, "DATA", "augment", 100 - n_rare), (2, "DATA", "rare", n_rare))
        (sentence,) = code_of_verdict(named(2), seen)
        assert sentence.endswith(told)


def test_of_ranks_that_the_verdict_tells_of_the_part_of_their_time_is_not_told_again() -> None:
    seen = code((2, "", "load", 20), (3, "", "augment", 20))
    verdict, of_3 = code_sentences(named(2, operation=UNLOGGED), {2: 0.8, 3: 0.5}, seen)
    assert verdict.startswith("Of 20 stack samples of rank 2 in no row")
    assert of_3.startswith("50% of the time of rank 3 is in no row")
    assert len(code_sentences(named(2), {2: 0.8}, seen)) == 1
