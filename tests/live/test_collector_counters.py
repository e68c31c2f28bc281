"""What hosts count is read as it is written, passed on in few bytes, and tells causes while a run goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from runs_with_counters import WAIT, write_run_with_counters

from timing_logger import read_host_counters
from timing_logger.live.collector import Collector, CounterTail
from timing_logger.live.digest import CounterRows
from timing_logger.live.packed import packed, packed_counters, unpacked, unpacked_counters
from timing_logger.live.watcher import snapshot_of
from timing_logger.live.window import Window
from timing_logger.reading.host_rows import COUNTED

ENDLESS_S = 1e9
HEADER = "start_counter,end_counter,major_faults,gpu_power_w\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run_with_counters(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def window(folder: Path) -> Window:
    """The window of the digests that two hosts of two ranks pass on."""
    window = Window(ENDLESS_S)
    for host in range(2):
        its = {f"timing-rank{rank}.csv" for rank in (2 * host, 2 * host + 1)}
        collector = Collector(folder, f"node{host}", lambda sidecar, its=its: sidecar.get("file") in its)
        window.add(unpacked(packed(collector.digest())))
    return window


def test_the_cause_is_told_by_what_hosts_pass_on(window: Window) -> None:
    verdict = snapshot_of(window).verdict
    assert verdict.cause is not None
    assert (verdict.ranks, verdict.cause.name, verdict.cause.counter) == ((2,), "processor-wait", WAIT)


def test_what_arrives_is_what_is_in_the_files(folder: Path, window: Window) -> None:
    found = window.now().host()
    assert found is not None
    expected = read_host_counters(folder)[list(found)]
    for rank, its in found.groupby("rank"):
        last = expected[expected["rank"] == rank].tail(len(its)).reset_index(drop=True)
        assert len(its) > 60
        pd.testing.assert_frame_equal(its.reset_index(drop=True), last, check_dtype=False, rtol=0, atol=6e-4)


def test_what_two_sources_have_read_counts_once(folder: Path) -> None:
    digest = Collector(folder, "node0", lambda sidecar: sidecar.get("file") == "timing-rank0.csv").digest()
    once, twice = Window(ENDLESS_S), Window(ENDLESS_S)
    for window, sources in ((once, ["node0"]), (twice, ["node0", ""])):
        for later_s, source in enumerate(sources):
            window.add(digest._replace(source=source, unix_s=digest.unix_s + later_s))
    found, expected = twice.now().host(), once.now().host()
    assert found is not None
    assert expected is not None
    pd.testing.assert_frame_equal(found, expected)


def test_a_column_without_a_value_costs_nothing_and_a_blank_cell_stays_blank() -> None:
    values = np.full((3, len(COUNTED)), np.nan)
    values[:, :2] = [[1.0, 2.0], [2.0, 3.0], [3.0, 4.001]]
    values[1, COUNTED.index("gpu_power_w")] = 71.5
    rows = CounterRows(np.array([0, 0, 8]), np.ones(3, np.int64), values)
    stated, data = packed_counters(rows)
    assert stated["counted"] == ["start_counter", "end_counter", "gpu_power_w"]
    for found, expected in zip(unpacked_counters(stated, data), rows, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_only_whole_lines_that_were_added_are_read(tmp_path: Path) -> None:
    parts, file, tail = {1: tmp_path / "timing-rank0.csv"}, tmp_path / "host-rank0.csv", CounterTail()
    assert len(tail.added(parts)) == 0
    file.write_text(HEADER + "1.0,2.0,3,\n2.0,3.0,4")
    assert tail.added(parts)[:, :2].tolist() == [[1.0, 2.0]]
    with file.open("a") as more:
        more.write(",71.5\nno line\n3.0,4.0,5,\n")
    added = tail.added(parts)
    assert added[:, :2].tolist() == [[2.0, 3.0], [3.0, 4.0]]
    assert added[0, COUNTED.index("gpu_power_w")] == 71.5


def test_the_next_part_is_followed_and_a_file_that_takes_the_place_of_another(tmp_path: Path) -> None:
    parts, tail = {1: tmp_path / "timing-rank0.csv"}, CounterTail()
    (tmp_path / "host-rank0.csv").write_text(HEADER + "1.0,2.0,3,\n")
    tail.added(parts)
    parts[2] = tmp_path / "timing-rank0.part2.csv"
    (tmp_path / "host-rank0.part2.csv").write_text(HEADER + "2.0,3.0,3,\n")
    assert tail.added(parts)[:, 0].tolist() == [2.0]
    (tmp_path / "host-rank0.part2.csv").write_text(HEADER + "9.0,10.0,3,\n")
    assert tail.added(parts)[:, 0].tolist() == [9.0]


def test_what_was_read_before_a_file_was_out_of_reach_is_not_read_again(tmp_path: Path) -> None:
    parts, file, tail = {1: tmp_path / "timing-rank0.csv"}, tmp_path / "host-rank0.csv", CounterTail()
    file.write_text(HEADER + "1.0,2.0,3,\n")
    tail.added(parts)
    file.rename(tmp_path / "away")
    assert len(tail.added(parts)) == 0
    (tmp_path / "away").rename(file)
    with file.open("a") as more:
        more.write("2.0,3.0,3,\n")
    assert tail.added(parts)[:, 0].tolist() == [2.0]


def test_a_foreign_file_is_no_counters(tmp_path: Path) -> None:
    (tmp_path / "host-rank0.csv").write_text("a,b\n1,2\n")
    assert len(CounterTail().added({1: tmp_path / "timing-rank0.csv"})) == 0
