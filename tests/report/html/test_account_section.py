"""The section on where the time went: which bars it has, and what it says beside them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from hung_runs import Rank, waiting, write_run
from simulated_runs import data_parallel, factors

from timing_logger.reading import read_timings
from timing_logger.report.html._account import AccountChart, account_chart
from timing_logger.report.html._findings import Findings


def section(timings: pd.DataFrame) -> AccountChart:
    return account_chart(Findings.of(timings))


def values(chart: AccountChart) -> list[str]:
    return [bar.value for bar in chart.bars]


@pytest.fixture(scope="module")
def of_two_ranks() -> AccountChart:
    return section(data_parallel(factors(20, 2)))


def test_of_many_ranks_the_bars_begin_with_the_one_that_was_waited_for_most() -> None:
    factor = factors(20, 20, noise=0.02)
    factor[:, 17] *= 2
    labels = [bar.label for bar in section(data_parallel(factor)).bars]
    assert labels[0] == "rank 17"
    assert labels[-2:] == [f"the other {20 - len(labels) + 2}", "all ranks"]


def test_a_bar_of_which_much_is_not_timed_says_so_in_words(of_two_ranks: AccountChart) -> None:
    assert not any("not timed" in value for value in values(of_two_ranks))
    untimed = section(data_parallel(factors(20, 2), logged=["ALLREDUCE"]))
    assert all("not timed" in value for value in values(untimed))


def test_the_sums_of_a_run_that_hangs_are_said_to_lack_the_open_calls(
    of_two_ranks: AccountChart, tmp_path: Path
) -> None:
    hung = read_timings(write_run(tmp_path, waiting(), waiting(), waiting(), Rank()))
    (said,) = [note for note in section(hung).notes if "hangs" in note]
    assert "have no end" in said
    assert not any("hangs" in note for note in of_two_ranks.notes)


def test_the_number_of_a_step_that_was_counted_is_explained(of_two_ranks: AccountChart) -> None:
    counted = section(data_parallel(factors(20, 2)).assign(iteration=pd.NA))
    notes = [chart.step.note for chart in (of_two_ranks, counted) if chart.step is not None]
    assert ["No iteration is recorded" in note for note in notes] == [False, True]
