"""The section on where the time went: which bars it has, and what it says beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from account_rows import barrier, row, table
from simulated_runs import data_parallel, factors

from timing_logger import analysis
from timing_logger.analysis import RunEnd, Verdict
from timing_logger.report._account_figures import AccountFigures
from timing_logger.report.html._account import (
    MOST_BARS,
    AccountBar,
    AccountChart,
    _notes,
    account_bars,
    account_chart,
)
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._step import TimeKinds
from timing_logger.results.facts import StepsCounted


@pytest.fixture(scope="module")
def found() -> Findings:
    """Of a run of two ranks."""
    return Findings.of(data_parallel(factors(20, 2)))


@pytest.fixture(scope="module")
def of_two_ranks(found: Findings) -> AccountChart:
    return account_chart(found)


def bars_of(timings: pd.DataFrame) -> list[AccountBar]:
    account = analysis.account(timings)
    main = account[account["is_main"].astype(bool)]
    kinds = TimeKinds.of(main)
    return list(account_bars(AccountFigures.of(account), main.assign(kind=kinds.of_rows(main)), kinds))


def values(bars: list[AccountBar]) -> list[str]:
    return [bar.value for bar in bars]


def test_a_bar_has_own_work_by_name_and_waiting_by_rank() -> None:
    rows = [row(0, "load", 0, 4), row(0, "forward", 4, 6), *barrier([6, 9], 10), row(1, "load", 0, 9)]
    bars = bars_of(table(*rows))
    assert [(part.name, part.length) for part in bars[0].segments] == [
        ("load", 40.0),
        ("forward", 20.0),
        ("transfer", 10.0),
        ("waiting for rank 1", 30.0),
    ]
    assert [bar.label for bar in bars] == ["rank 0", "rank 1", "all ranks"]


@pytest.fixture(scope="module")
def of_many_ranks() -> list[AccountBar]:
    factor = factors(2, 20, noise=0.02)
    factor[:, 17] *= 2
    return bars_of(data_parallel(factor))


def test_of_many_ranks_the_bars_begin_with_the_one_that_was_waited_for_most(
    of_many_ranks: list[AccountBar],
) -> None:
    labels = [bar.label for bar in of_many_ranks]
    assert labels[0] == "rank 17"
    assert labels[-2:] == [f"the other {20 - len(labels) + 2}", "all ranks"]


def test_every_bar_is_whole(of_many_ranks: list[AccountBar]) -> None:
    for bar in of_many_ranks:
        assert sum(part.length for part in bar.segments) == pytest.approx(100, abs=0.01)


def test_a_run_without_instants_has_no_bars(found: Findings) -> None:
    instants = ["start_counter", "end_counter", "start_s", "end_s"]
    unknown = table(row(0, "load", 0, 4)).assign(**dict.fromkeys(instants, np.nan))
    summary = found.summary._replace(account=analysis.account(unknown))
    assert account_chart(replace(found, summary=summary)).bars == []


def test_a_bar_of_which_much_is_not_timed_says_so_in_words(of_two_ranks: AccountChart) -> None:
    assert not any("not timed" in value for value in values(of_two_ranks.bars))
    untimed = bars_of(data_parallel(factors(5, 2), logged=["ALLREDUCE"]))
    assert all("not timed" in value for value in values(untimed))


def test_the_sums_of_a_run_that_hangs_are_said_to_lack_the_open_calls(
    found: Findings, of_two_ranks: AccountChart
) -> None:
    hung = replace(found, verdict=replace(found.verdict, end=RunEnd(state="hang")))
    (said,) = [note for note in account_chart(hung).notes if "hangs" in note]
    assert "have no end" in said
    assert not any("hangs" in note for note in of_two_ranks.notes)


def test_the_number_of_a_step_that_was_counted_is_explained(
    found: Findings, of_two_ranks: AccountChart
) -> None:
    counted = account_chart(replace(found, verdict=replace(found.verdict, evidence=(StepsCounted(),))))
    notes = [chart.step.note for chart in (of_two_ranks, counted) if chart.step is not None]
    assert ["No iteration is recorded" in note for note in notes] == [False, True]


@pytest.mark.parametrize(("more", "is_said"), [(0, False), (1, True)])
def test_of_more_ranks_than_bars_it_is_said_which_have_one(more: int, is_said: bool) -> None:
    rows = [row(rank, "load", 0, 4) for rank in range(MOST_BARS + more)]
    notes = list(_notes(AccountFigures.of(analysis.account(table(*rows))), Verdict(verdict="healthy")))
    assert (
        any(note.startswith(f"Of {MOST_BARS + more:,} ranks those have a bar each") for note in notes)
        is is_said
    )
