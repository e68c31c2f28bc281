"""The benchmark of comparisons is right itself: runs are spread as it says, and what is called is counted."""

from __future__ import annotations

import re
from difflib import ndiff
from pathlib import Path

import numpy as np
import pytest
from compare_runs import jobs, real, simulated
from compare_runs.parts import PARTS
from compare_runs.program import CHANGES
from compare_runs.simulated import Noise, compared, scaled
from compared_runs import PARTS_MS, quantity, summary
from places import ROOT

from timing_logger.results.run_summary import RunSummary

pytestmark = pytest.mark.slow("of a benchmark: make test-deep runs it where that changes")

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


def test_the_page_links_to_what_every_part_measured_and_every_change_is_tried() -> None:
    assert re.findall(r"\(data/compare-(\w+)\.txt\)", PAGE) == list(PARTS)
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


# -- whole CI jobs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", jobs.CHANGES)
def test_the_branches_of_a_job_differ_in_what_the_pull_request_changes(tmp_path: Path, change: str) -> None:
    jobs.write_branches(tmp_path, change)
    before, after = ((tmp_path / side / "train.py").read_text() for side in ("before", "after"))
    changed = [line for line in ndiff(before.splitlines(), after.splitlines()) if line.startswith("+ ")]
    assert len(changed) == 1
    assert ("time.sleep(0.002)" in changed[0]) == (change == "sleep")
    assert changed[0].strip("+ ").startswith("#") == (change == "comment")
    compile(after, "train.py", "exec")


def test_jobs_that_end_otherwise_than_wanted_come_first_and_failed_ones_are_neither_red_nor_green() -> None:
    def job(change: str, exit_code: int, basis: str = "") -> jobs.Job:
        return jobs.Job(change, exit_code, "", basis, 20.0, 0.1, 30.0, 2.0)

    found = [
        job("sleep", 1, "step"), job("sleep", 1, "account"), job("sleep", 2), job("sleep", 0),
        *[job("comment", 0)] * 3, job("comment", 1, "step"),
    ]  # fmt: skip
    sleep, comment = list(jobs.lines(found))[2:4]
    assert sleep == "| adds `time.sleep(0.002)` to each step | 4 | 2 | 1 | 1 | 1 | 1 | 50% |"
    assert comment == "| changes a comment | 4 | 1 | 1 | 0 | 3 | 0 | 75% |"


def test_jobs_that_are_kept_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def stand_in(change: str) -> jobs.Job:
        ran.append(change)
        return jobs.Job(change, 0, "undecided", "", 20.0, 0.1, 30.0, 2.0)

    monkeypatch.setattr(jobs, "_job", stand_in)
    assert len(jobs.jobs(tmp_path, 2)) == len(jobs.jobs(tmp_path, 2)) == 4
    assert len(jobs.jobs(tmp_path, 3)) == 6
    assert ran == ["sleep", "comment"] * 3


@pytest.mark.slow("ten trainings")
@pytest.mark.serial  # ten short trainings, one after the other
def test_a_job_runs_to_its_end_and_its_exit_code_is_that_of_compare() -> None:
    job = jobs._job("comment")
    assert job.exit_code in (0, 1)
    assert (job.exit_code == 1) == (job.verdict == "regressed")
    assert job.step_ms > 0
