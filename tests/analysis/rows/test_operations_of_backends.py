"""Rows ``BACKEND``, NCCL's own account of collectives that have rows: they count in no other figure."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from simulated_runs import data_parallel, factors
from slow import slow
from timing_files import write_table

from timing_logger import read_timings
from timing_logger.analysis import (
    bandwidth,
    efficiencies,
    match_collectives,
    overlap,
    stragglers,
    summarize,
    summarize_ranks,
    waits,
    windows,
)
from timing_logger.analysis.verdict.overview import overview
from timing_logger.report import summary_text, write_trace
from timing_logger.report.html import report_html
from timing_logger.report.html._charts import operation_charts
from timing_logger.report.html._findings import Findings


@functools.cache
def run() -> pd.DataFrame:
    factor = factors(60, 4, noise=0.05, seed=7)
    factor[:, 2] *= 1.5
    timings = data_parallel(factor)
    timings["message_size_bytes"] = timings["seq"] * 0 + 4096
    return timings


def with_backend_rows(timings: pd.DataFrame) -> pd.DataFrame:
    """Each all-reduce twice: the backend's row ends when torch noticed, in the step after."""
    twins = timings[timings["operation"] == "ALLREDUCE"].assign(operation="BACKEND", clock="device")
    for name in ("start_counter", "end_counter"):
        twins[name] += 0.004
    return pd.concat([timings, twins]).sort_values("rank", kind="stable", ignore_index=True)


def without_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The positions of rows in the table are others."""
    return table.drop(columns=[name for name in table if name.endswith("row")])


BESIDE = "another view of what is quick"


@pytest.mark.parametrize(
    "analysis",
    [
        bandwidth,
        overlap,
        waits,
        *(slow(other, BESIDE) for other in (efficiencies, match_collectives, windows)),
    ],
)
def test_an_analysis_is_the_same_with_and_without(analysis: Any) -> None:
    plain, found = analysis(run()), analysis(with_backend_rows(run()))
    pd.testing.assert_frame_equal(without_rows(found), without_rows(plain))


def test_a_verdict_is_the_same_with_and_without() -> None:
    assert stragglers(with_backend_rows(run())) == stragglers(run())


@pytest.mark.slow("with other rows beside them, the verdict is quick")
def test_a_verdict_on_collectives_alone_is_the_same_with_and_without() -> None:
    only = run()["operation"] == "ALLREDUCE"
    assert stragglers(with_backend_rows(run()[only])) == stragglers(run()[only])


def test_a_summary_counts_them_as_an_operation_and_as_no_communication() -> None:
    figures = ["communication_ms", "waited_ms", "iterations"]
    pd.testing.assert_frame_equal(
        summarize_ranks(with_backend_rows(run()))[figures], summarize_ranks(run())[figures]
    )
    counts = summarize(with_backend_rows(run()), ["operation"]).set_index("operation")["count"]
    assert counts["BACKEND"] == counts["ALLREDUCE"] == 240


@pytest.mark.slow("in a trace; that they count in no figure is quick")
def test_a_trace_shows_them_and_counts_their_bytes_once(tmp_path: Path) -> None:
    plain, found = (
        write_trace(few_steps(timings), tmp_path / "trace.json")
        for timings in (run(), with_backend_rows(run()))
    )
    assert found.counters == plain.counters
    assert found.flows == plain.flows
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(event["name"] == "BACKEND" for event in events) == 12


def few_steps(timings: pd.DataFrame) -> pd.DataFrame:
    return timings[timings["iteration"] < 3].reset_index(drop=True)


@pytest.mark.slow("a line of the summary; that they are counted in it is quick")
@pytest.mark.parametrize(
    "with_rows",
    [run, lambda: with_backend_rows(run())],
    ids=["without", "with"],
)
def test_the_summary_says_what_they_are_where_there_are_some(
    with_rows: Callable[[], pd.DataFrame], tmp_path: Path
) -> None:
    timings = few_steps(with_rows())
    told = summary_text(overview(read_timings(write_table(tmp_path, timings))), 120)
    there_are_some = "BACKEND" in set(timings["operation"])
    assert ("BACKEND: what the backend (NCCL) itself measured" in told) is there_are_some


@pytest.mark.slow("on a page; that the summary says it is quick")
def test_the_page_has_something_to_explain_where_there_are_some() -> None:
    with_rows, without = (few_steps(timings) for timings in (with_backend_rows(run()), run()))
    assert operation_charts(Findings.of(with_rows)).has_backend
    assert not operation_charts(Findings.of(without)).has_backend


@pytest.mark.slow("a whole page: that it has something to explain is a test of its own")
def test_the_page_says_what_they_are() -> None:
    assert "BACKEND is what the backend itself measured" in report_html(few_steps(with_backend_rows(run())))
