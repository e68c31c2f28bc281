"""The benchmark of comparisons is right itself: runs are spread as it says, and what is called is counted."""

from __future__ import annotations

import re

import numpy as np
import pytest
from compare_runs import real, simulated
from compare_runs.parts import PARTS
from compare_runs.program import CHANGES
from compare_runs.simulated import Noise, compared, scaled
from compared_runs import PARTS_MS, quantity, summary
from places import ROOT

from timing_logger.analysis.comparison.run_summary import RunSummary

PAGE = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
RUNS = [summary() for _ in range(20)]


def test_a_run_that_takes_longer_does_so_in_all_its_parts() -> None:
    run = scaled(summary(1.0, quantity("FORWARD", 30.0)), 1.05, np.random.default_rng(0), 0.0)
    assert run.step_mean_ms == pytest.approx(105.0)
    assert run.quantities[-1].mean_ms == pytest.approx(31.5)


def test_the_step_stays_the_sum_of_its_parts() -> None:
    run = scaled(summary(), 1.0, np.random.default_rng(0), 0.1)
    parts_ms = sum(one.mean_ms for one in run.quantities if one.kind == "account")
    assert run.step_mean_ms == pytest.approx(parts_ms)
    assert run.step_mean_ms != pytest.approx(sum(PARTS_MS.values()))


def test_what_is_called_slower_is_counted() -> None:
    found = compared(RUNS, Noise(0.005), (5, 5), 0.05, 10)
    assert (found.n, found.slower, found.faster) == (10, 10, 0)
    assert compared(RUNS, Noise(0.005), (5, 5), -0.05, 10).faster == 10


def test_a_simulated_run_has_every_part() -> None:
    run = simulated.simulated(0)
    assert run.n_steps == 90
    assert {one.operation for one in run.quantities if one.kind == "account"} >= set(PARTS_MS)


def test_no_run_is_drawn_twice_for_one_comparison() -> None:
    pool = {"none": [summary(1 + 0.001 * at, run_id=str(at)) for at in range(12)]}
    for found in real.tries(pool, "none", 20):
        drawn = [run.run_id for side in (found.here, found.against) for run in side.runs]
        assert len(set(drawn)) == 10


def test_the_table_of_causes_counts_what_is_named() -> None:
    def with_gc(ms: float) -> RunSummary:
        return summary(1.0, quantity("GC", ms, n_rows=0.2), parts_ms={**PARTS_MS, "own work": 80.0 + ms})

    same = [summary(1 + 0.001 * at) for at in range(6)]
    pool = {
        "none": same,
        "garbage": [with_gc(9.0 + 0.1 * at) for at in range(6)],
        "bytes": same,
        "rank": same,
    }
    garbage, unchanged = list(real.lines_of_causes(pool, 4))[2:4]
    assert garbage.endswith("| 4 | 4 | 4 | 4 |")
    assert unchanged.endswith("| 4 | 0 | 0 | 0 |")


def test_every_part_has_a_place_in_the_page_and_every_change_is_tried() -> None:
    assert re.findall(r"<!-- made: (\w+) -->", PAGE) == list(PARTS)
    assert set(real._NAMED) | {"none", "sleep"} == set(CHANGES)


def test_runs_that_were_recorded_in_turn_are_compared_as_they_were() -> None:
    pool = {
        name: [summary(1 + 0.001 * at, run_id=f"{name}{at}", began_unix_ns=at) for at in range(12)]
        for name in ("none", "sleep")
    }
    same, other = (list(real.in_turn(pool, change)) for change in ("none", "sleep"))
    assert (len(same), len(other)) == (3, 8)
    assert [run.run_id for run in same[0].here.runs] == ["none1", "none3", "none5", "none7", "none9"]
    assert [run.run_id for run in other[1].here.runs] == [f"sleep{at}" for at in range(1, 6)]
    assert [run.run_id for run in other[1].against.runs] == [f"none{at}" for at in range(1, 6)]
