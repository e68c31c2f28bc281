"""The digests of several hosts make one table, which is judged as the timing files are."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from digests import digest_of, on_one_axis
from simulated_runs import Floats, data_parallel, factors
from slow import slow
from timing_files import write_table

from timing_logger import read_timings
from timing_logger.analysis import Verdict, stragglers
from timing_logger.live.digest import Digest
from timing_logger.live.packed import packed_within, unpacked
from timing_logger.live.sampled_steps import of_fewer_steps
from timing_logger.live.watcher import snapshot_of
from timing_logger.live.window import Window, WindowRows

ENDLESS_S = 1e9


def slow_from(step: int, n_steps: int = 180) -> Floats:
    times = factors(n_steps, 4, noise=0.05)
    times[step:, 2] *= 1.3
    return times


@cache
def half_slow() -> pd.DataFrame:
    """A run of which rank 2 is slow from step 60 on."""
    return data_parallel(slow_from(60))


@cache
def of_host(name: str, *ranks: int) -> Digest:
    return digest_of(half_slow(), name, ranks)


@cache
def verdict_of_files() -> Verdict:
    with tempfile.TemporaryDirectory() as folder:
        return stragglers(read_timings(write_table(Path(folder), half_slow())))


@cache
def of_all_on_one_axis() -> tuple[Digest, float]:
    """The digest of a run of which rank 2 is slow, and how long the run lasts in s."""
    run = on_one_axis(data_parallel(slow_from(0)))
    return digest_of(run), run["end_counter"].max() - run["start_counter"].min()


def judged(window: Window) -> Verdict:
    return snapshot_of(window).verdict


@pytest.mark.parametrize("most_bytes", [slow(10**6, "all steps; to leave many out is the harder case"), 3500])
def test_digests_of_two_hosts_are_judged_as_their_files_are(most_bytes: int) -> None:
    window = Window(ENDLESS_S)
    for host, ranks in (("node1", (0, 1)), ("node2", (2, 3))):
        window.add(unpacked(packed_within(of_host(host, *ranks), most_bytes)))
    found = judged(window)
    expected = verdict_of_files()
    assert (found.verdict, found.ranks, found.operation) == ("rank", (2,), expected.operation)
    assert found.cost_share == pytest.approx(expected.cost_share, rel=0.15)
    assert 60 <= (found.first_iteration or 0) <= 67


def test_a_host_that_leaves_out_more_steps_is_compared_in_those_that_it_has() -> None:
    window = Window(ENDLESS_S)
    window.add(of_host("node1", 0, 1))
    window.add(unpacked(packed_within(of_host("node2", 2, 3), 2000)))
    assert {int(step) % 3 for step in window.now().timings["iteration"]} == {0}
    assert judged(window).ranks == (2,)


def test_only_the_last_seconds_are_judged() -> None:
    digest, lasts_s = of_all_on_one_axis()
    window = Window(lasts_s / 3)
    window.add(digest)
    timings = window.now().timings
    assert timings["start_s"].max() - timings["start_s"].min() <= lasts_s / 3
    assert 54 <= timings["iteration"].nunique() <= 63


def test_who_told_last_of_a_process_is_believed_and_nobody_else() -> None:
    run, window = data_parallel(factors(20, 2)), Window(ENDLESS_S)
    for number, source in enumerate(("node1", "")):
        window.add(digest_of(run, source)._replace(unix_s=float(number)))
    assert len(window.now().timings) == len(run)


def test_a_file_that_takes_the_place_of_another_is_another_run() -> None:
    window = Window(ENDLESS_S)
    window.add(digest_of(data_parallel(factors(20, 2))))
    later = digest_of(data_parallel(factors(8, 2)))
    processes = [process._replace(generation=1) for process in later.processes]
    window.add(later._replace(processes=processes, number=1))
    assert window.now().timings["iteration"].max() == 7


def test_where_steps_are_long_the_window_has_enough_of_them() -> None:
    operations_ms = {"DATA": 100.0, "FORWARD": 1000.0, "BACKWARD": 1800.0, "OPTIMIZER": 100.0}
    times = factors(100, 4, noise=0.05)
    times[70:, 2] *= 1.3
    window = Window(30.0)
    window.add(digest_of(on_one_axis(data_parallel(times, operations_ms=operations_ms))))
    steps = window.now().timings["iteration"].nunique()
    assert 0.85 * 40 <= steps <= 41
    assert judged(window).ranks == (2,)


def test_where_digests_leave_many_steps_out_the_window_has_enough_of_those_that_they_have() -> None:
    digest, lasts_s = of_all_on_one_axis()
    window = Window(lasts_s / 100)
    window.add(of_fewer_steps(digest, 5))
    steps = window.now().timings["iteration"].nunique()
    assert 0.85 * 20 <= steps <= 21


@pytest.mark.parametrize(("step_s", "length_s"), [(40.0, 1600.0), (50.0, 1800.0)])
def test_for_its_steps_the_window_is_made_no_longer_than_half_an_hour(step_s: float, length_s: float) -> None:
    kept: Any = [SimpleNamespace(newest_unix_s=10_000.0, digest=SimpleNamespace(every=1))]
    counted = WindowRows(np.array([60.0]), np.array([10.0]), np.array([10 * step_s]))
    assert Window(30.0)._begin_unix_s(kept, counted) == 10_000.0 - length_s
