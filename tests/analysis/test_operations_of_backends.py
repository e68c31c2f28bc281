"""Rows ``BACKEND``, NCCL's own account of collectives that have rows: they count in no other figure."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from simulated_runs import data_parallel, factors
from timing_files import write_table

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
from timing_logger.cli import main
from timing_logger.report import write_trace
from timing_logger.report.html import report_html


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


@pytest.mark.parametrize("analysis", [bandwidth, efficiencies, match_collectives, overlap, waits, windows])
def test_an_analysis_is_the_same_with_and_without(analysis: Any) -> None:
    plain, found = analysis(run()), analysis(with_backend_rows(run()))
    pd.testing.assert_frame_equal(without_rows(found), without_rows(plain))


def test_a_verdict_is_the_same_with_and_without() -> None:
    assert stragglers(with_backend_rows(run())) == stragglers(run())
    only = run()["operation"] == "ALLREDUCE"
    assert stragglers(with_backend_rows(run()[only])) == stragglers(run()[only])


def test_a_summary_counts_them_as_an_operation_and_as_no_communication() -> None:
    figures = ["communication_ms", "waited_ms", "iterations"]
    pd.testing.assert_frame_equal(
        summarize_ranks(with_backend_rows(run()))[figures], summarize_ranks(run())[figures]
    )
    counts = summarize(with_backend_rows(run()), ["operation"]).set_index("operation")["count"]
    assert counts["BACKEND"] == counts["ALLREDUCE"] == 240


def test_a_trace_shows_them_and_counts_their_bytes_once(tmp_path: Path) -> None:
    plain, found = (
        write_trace(timings, tmp_path / "trace.json") for timings in (run(), with_backend_rows(run()))
    )
    assert found.counters == plain.counters
    assert found.flows == plain.flows
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(event["name"] == "BACKEND" for event in events) == 240


@pytest.mark.parametrize(("timings", "said"), [(run(), False), (with_backend_rows(run()), True)])
def test_the_summary_says_what_they_are(
    timings: pd.DataFrame, said: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["summary", str(write_table(tmp_path, timings))])
    assert ("BACKEND: what the backend (NCCL) itself measured" in capsys.readouterr().out) is said
    assert ("BACKEND is what the backend itself measured" in report_html(timings)) is said
