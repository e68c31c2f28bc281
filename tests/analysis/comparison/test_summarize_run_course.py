"""What is kept of the course of a run: medians of at most 64 stretches, which are the same for runs of other
lengths."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from simulated_runs import OPERATIONS_MS, TRANSFER_MS, data_parallel, factors

from timing_logger.analysis.comparison.quantities import counted_steps
from timing_logger.analysis.comparison.summarize_run import RUN_SUMMARY, course_of, step_sums, summarize_run
from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.tables import opened
from timing_logger.results.run_summary import MOST_STRETCHES, Course

STEP_MS = sum(OPERATIONS_MS.values()) + TRANSFER_MS


def course_or_none(table: pd.DataFrame) -> Course | None:
    """Return the course of a run, without the rest of its summary."""
    return course_of(step_sums(counted_steps(opened(table, COLUMNS_OF["summarize_run"]))))


def course(table: pd.DataFrame) -> Course:
    found = course_or_none(table)
    assert found is not None
    return found


def test_a_run_that_becomes_slower_has_that_in_its_course() -> None:
    times = factors(300, 2)
    times[160:] *= 2.0
    found = course(data_parallel(times))
    ms = dict(zip(found.first, found.median_ms, strict=True))
    assert (found.counted_by, found.width) == ("iterations", 8)
    assert ms[152] == pytest.approx(STEP_MS)
    assert ms[160] == pytest.approx(2 * STEP_MS - TRANSFER_MS)


def test_a_long_run_has_few_stretches_that_begin_where_those_of_a_shorter_one_do() -> None:
    long, short = (course(data_parallel(factors(n, 1), logged=["FORWARD"])) for n in (600, 550))
    assert len(long.first) <= MOST_STRETCHES
    assert long.width == 16
    assert set(short.first) <= set(long.first)


def test_one_long_step_is_no_long_stretch() -> None:
    times = factors(300, 2)
    times[100] *= 1000
    found = course(data_parallel(times))
    assert max(found.median_ms) == pytest.approx(STEP_MS)


def test_the_first_steps_are_not_in_it() -> None:
    found = course(data_parallel(factors(40, 2)))
    assert found.first[0] == 4
    assert sum(found.n_steps) == 35  # how long the last one took is not known


def test_where_iterations_restart_the_steps_are_counted() -> None:
    table = data_parallel(factors(60, 2))
    found = course(table.assign(epoch=table["iteration"] // 20, iteration=table["iteration"] % 20))
    assert found.counted_by == "steps"
    assert found.first[0] == 6
    assert found.first[-1] == 58


def test_rounds_are_counted_where_no_iteration_is_recorded() -> None:
    table = data_parallel(factors(60, 2)).assign(iteration=pd.array([pd.NA] * 600, dtype="Int64"))
    assert course(table).counted_by == "iterations"


def test_a_run_that_is_one_step_has_no_course() -> None:
    rows = data_parallel(factors(2, 1))
    table = rows[rows["operation"] != "ALLREDUCE"].assign(iteration=pd.array([pd.NA] * 8, dtype="Int64"))
    assert course_or_none(table.reset_index(drop=True)) is None


def test_ranks_that_count_otherwise_have_no_course_together() -> None:
    table = data_parallel(factors(60, 2))
    restarts = (table["rank"] == 1) & (table["iteration"] >= 30)
    table["epoch"] = restarts.astype(int)
    table.loc[restarts, "iteration"] -= 30
    assert course_or_none(table) is None


def test_many_processes_in_any_parts_give_the_same() -> None:
    table = data_parallel(factors(40, 3, noise=0.3))
    parts = [rows.reset_index(drop=True) for _, rows in table.groupby(table["rank"] == 2)]
    in_parts = RUN_SUMMARY.reduce([RUN_SUMMARY.map(each) for each in parts])
    assert in_parts == summarize_run(table)
    assert np.ptp(in_parts.course.median_ms) > 0
