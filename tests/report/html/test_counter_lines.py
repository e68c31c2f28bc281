"""The lines under the timeline: of which counters and ranks they are, and on which axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from host_tables import host_of
from page_data import unpacked
from simulated_runs import data_parallel, factors

from timing_logger.report._host_rates import host_tables
from timing_logger.report.html._counter_lines import (
    LINES,
    MOST_COUNTERS,
    MOST_VALUES,
    CounterLines,
    LineValues,
    counter_lines_of,
    line_kinds,
)
from timing_logger.report.html._timeline import Timeline, timeline
from timing_logger.schema.host_counters import COUNTERS, NAMES, Counter


def lines_under(drawn: Timeline, host: pd.DataFrame, named: str = "") -> CounterLines:
    values = LineValues(drawn, named)
    for table in host_tables(host):
        values.add(table)
    return counter_lines_of(values)


def lines_of(timings: pd.DataFrame, host: pd.DataFrame) -> CounterLines:
    return lines_under(timeline(timings), host)


@pytest.fixture(scope="module")
def run() -> pd.DataFrame:
    return data_parallel(factors(100, 2))  # 3.65 s


@pytest.fixture(scope="module")
def drawn_run(run: pd.DataFrame) -> Timeline:
    return timeline(run)


def test_a_line_is_the_rate_at_its_instant_on_the_axis_of_the_timeline(
    run: pd.DataFrame, drawn_run: Timeline
) -> None:
    waits_us = [[0, 500_000, 0, 0], [0, 0, 250_000, 0]]
    drawn = lines_under(drawn_run, host_of(run, 1.0, main_run_queue_wait_us=waits_us))
    (line,) = drawn.lines
    at_s = (np.arange(1000) + 0.5) * 3.65 / 1000
    for rank in range(2):
        expected = np.array(waits_us[rank])[at_s.astype(int)] / 1e4
        away = np.abs(at_s - np.rint(at_s)) > 0.004  # from the edge of an interval
        np.testing.assert_allclose(line.values[rank][away], expected[away], atol=1e-6)
    assert (line.kind.unit, drawn.coarse) == ("% of the time", "")


def test_ranks_on_one_axis_have_their_lines_on_it(run: pd.DataFrame) -> None:
    begin_s = run["start_counter"] - 1000.0 * run["rank"]
    shared = run.assign(start_s=begin_s, end_s=begin_s + 1e-3 * run["elapsed_ms"], clock_uncertainty_s=1e-6)
    host = host_of(run, 1.0, throttled_us=[[0, 5e5, 0], [0, 5e5, 0]])
    moved = host.assign(start_s=1000.0 + host["start_counter"] % 1000, end_s=0.0)
    moved["end_s"] = moved["start_s"] + 1
    moved.loc[moved["rank"] == 1, ["start_s", "end_s"]] += 1.0
    (line,) = lines_of(shared, moved).lines
    assert (line.values[0] > 25).nonzero()[0][0] == pytest.approx(1000 / 3.65, abs=1.5)
    assert (line.values[1] > 25).nonzero()[0][0] == pytest.approx(2000 / 3.65, abs=1.5)


def test_the_counters_that_vary_most_are_shown_and_steady_ones_are_not(
    run: pd.DataFrame, drawn_run: Timeline
) -> None:
    up = np.linspace(0, 1, 4) * np.ones((2, 1))
    host = host_of(
        run, 1.0, process_cpu_us=4e5 + 2e5 * up, throttled_us=1e6 * up, major_faults=500 * up,
        process_read_kb=1e6 * up, memory_available_mb=np.full((2, 4), 64_000.0),
    )  # fmt: skip
    names = [line.kind.counters[0] for line in lines_under(drawn_run, host).lines]
    assert names == ["throttled_us", "process_read_kb", "major_faults"]
    assert len(names) == MOST_COUNTERS
    steady = host_of(run, 1.0, memory_available_mb=np.full((2, 4), 64_000.0))
    assert lines_under(drawn_run, steady).data is None


def test_a_rank_without_a_file_has_no_value_and_no_line_in_the_table(
    run: pd.DataFrame, drawn_run: Timeline
) -> None:
    drawn = lines_under(drawn_run, host_of(run, 1.0, throttled_us=[[0, 1e6, 0, 0]]))
    data: Any = drawn.data
    values = unpacked(data["counters"][0]["values"]).reshape(2, -1)
    assert (values[1] == 2**16 - 1).all()
    assert values[0].max() == 2**16 - 2
    assert [row[:2] for row in drawn.table.rows] == [["CPU quota", "rank 0"]]


def test_of_more_ranks_each_line_has_fewer_values() -> None:
    many = data_parallel(factors(4, 24))
    counted = np.tile([0, 2e4, 0, 1e5], (24, 1))
    drawn = lines_of(many, host_of(many, 0.04, throttled_us=counted, main_run_queue_wait_us=counted))
    assert sum(line.values.size for line in drawn.lines) <= MOST_VALUES
    assert {line.values.shape[0] for line in drawn.lines} == {24}


def test_a_line_of_a_long_run_says_what_time_a_value_stands_for() -> None:
    slow = data_parallel(factors(200, 2) * 300)  # half an hour
    drawn = lines_of(slow, host_of(slow, 60.0, throttled_us=np.tile([0, 6e7], (2, 16))))
    assert drawn.coarse == "2.10 s"


def test_each_line_is_of_counters_that_are_recorded() -> None:
    assert {name for kind in LINES for name in kind.counters} <= set(NAMES)


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: str(counter.name))
def test_each_counter_that_is_recorded_has_a_line_where_the_verdict_names_it(counter: Counter) -> None:
    line = line_kinds(counter.name)[0]
    assert line.counters == (counter.name,)
    assert (line.unit != "") == (counter.kind == "difference" or counter.unit not in ("", "bits"))


@pytest.mark.parametrize(
    ("named", "name", "unit"),
    [
        ("memory_available_mb", "Memory left on the host", "MB"),
        ("io_pressure_some_us", "Disk pressure", "% of the time"),
        ("cpu_pressure_some_us", "cpu_pressure_some_us", "% of the time"),
        ("involuntary_switches", "involuntary_switches", "per s"),
    ],
)
def test_the_counter_that_the_verdict_names_comes_first_even_if_it_is_steady(
    run: pd.DataFrame, drawn_run: Timeline, named: str, name: str, unit: str
) -> None:
    up = np.linspace(0, 1, 4) * np.ones((2, 1))
    host = host_of(run, 1.0, **{named: np.full((2, 4), 5e4)}, throttled_us=1e6 * up, major_faults=500 * up)
    drawn = lines_under(drawn_run, host, named)
    assert [line.kind.name for line in drawn.lines] == [name, "CPU quota", "Major page faults"]
    assert (drawn.named, drawn.lines[0].kind.unit) == (True, unit)


def test_a_counter_that_the_verdict_names_and_no_shown_rank_has_is_not_shown(drawn_run: Timeline) -> None:
    assert counter_lines_of(LineValues(drawn_run, "throttled_us")).data is None
