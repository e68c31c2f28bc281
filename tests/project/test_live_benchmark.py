"""The benchmark of the monitor is right itself: its jobs are as it says, and what is told is counted."""

from __future__ import annotations

import re

import numpy as np
import pytest
from live_runs import false_alarms
from live_runs.accuracy import told_of
from live_runs.delay import Cell, delay_of
from live_runs.hosts import Host, every_within, hosts_of
from live_runs.job import OPERATIONS, Job, Slow, intervals, played
from live_runs.parts import PARTS
from live_runs.size import sizes
from places import ROOT
from verdict_accuracy.simulation import Scenario

from timing_logger.live.packed import packed, unpacked

pytestmark = pytest.mark.slow("of a benchmark: make test-deep runs it where that changes")

RANKS = np.arange(4)
JOB = Job(4, 0.1, 60.0, seed=0)


def test_a_rank_is_slow_in_what_it_begins_between_the_two_moments() -> None:
    slow = played(JOB._replace(slow=Slow(2, 0.5, since_s=20.0, until_s=40.0))).took_s / played(JOB).took_s
    steps = np.flatnonzero(np.isclose(slow[:, 0, 2], 1.5))
    assert len(steps) == pytest.approx(20.0 / 0.15, rel=0.1)
    assert (np.diff(steps) == 1).all()
    slow[steps, :, 2] = 1.0
    assert slow == pytest.approx(1.0)


def test_nobody_leaves_a_reduction_before_the_last_one_has_come() -> None:
    run = played(JOB)
    begins_s, ends_s = intervals(run, np.arange(run.n_steps), RANKS)
    reduction = OPERATIONS.index("ALLREDUCE")
    assert (ends_s[..., reduction] == ends_s[:1, :, reduction]).all()
    assert (ends_s[..., reduction] >= begins_s[..., reduction].max(axis=0)).all()
    assert (begins_s[:, 1:, 0] == ends_s[:, :-1, -1]).all()


def test_digests_have_each_step_once_and_none_before_it_is_written() -> None:
    run = played(JOB)
    host = Host(run, "node0", RANKS, 1, 0.0)
    tables = [(at_s, host.digest(at_s).rows.table()) for at_s in (5.0, 10.0, 15.0)]
    steps = np.concatenate([rows["iteration"][rows["rank"] == 0].unique() for _, rows in tables])
    assert steps.tolist() == list(range(len(steps)))
    assert all(run.ready_s[int(rows["iteration"].max())] <= at_s for at_s, rows in tables)


def test_digests_are_packed_as_those_of_a_monitor_are() -> None:
    digest = Host(played(JOB), "node0", RANKS, 1, 0.0).digest(5.0)
    again = unpacked(packed(digest))
    assert again.rows.texts["operation"].codes.tolist() == digest.rows.texts["operation"].codes.tolist()
    assert again.rows.numbers["start_counter"] == pytest.approx(
        digest.rows.numbers["start_counter"], abs=1e-7
    )
    assert again.processes[3].sidecar["groups"] == digest.processes[3].sidecar["groups"]


def test_of_short_steps_a_digest_has_fewer() -> None:
    assert every_within(played(Job(16, 0.3, 15.0, seed=0)), 5.0) == 1
    assert every_within(played(Job(16, 0.01, 15.0, seed=0)), 5.0) > 1


def test_each_rank_has_one_host() -> None:
    assert np.concatenate(hosts_of(20)).tolist() == list(range(20))


@pytest.mark.slow("a minute of a job; the tests of the monitor have ranks that become slow")
def test_a_rank_that_became_slow_is_told_and_nobody_else_is() -> None:
    found = delay_of((Cell(4, 0.3), 0))
    assert found.seconds < 60
    assert found.n_wrong == 0


def test_nothing_is_told_of_a_healthy_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(false_alarms, "JOB_S", 20.0)
    assert false_alarms.alarms((false_alarms.Kind(4, 0.3), 0)) == []


def test_where_nothing_was_told_the_rate_is_at_most_three_in_all_hours() -> None:
    assert false_alarms.most(0, 10.0) == pytest.approx(0.3, rel=0.01)
    assert false_alarms.most(1, 10.0) > 0.3


def test_the_page_links_to_what_is_measured() -> None:
    page = (ROOT / "docs/live.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(data/live-([\w-]+)\.txt\)", page)) == {name.replace(" ", "-") for name in PARTS}


@pytest.mark.slow("a benchmark that grows files for a minute")
def test_files_that_grow_are_judged_while_they_do() -> None:
    told = told_of((Scenario("data-parallel", "all rows", "steady", "slow 50%", 4), 0))
    assert told.is_named
    assert told.n_wrong == 0


@pytest.mark.slow("a benchmark of the process that judges")
def test_the_process_that_judges_finds_the_slow_rank_in_the_digests_of_two_hosts() -> None:
    (found,) = sizes([16])
    assert found.found
    assert found.bytes_per_10_s <= 2000 * 8
