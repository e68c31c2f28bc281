"""P4: after SIGKILL nothing older than ``flush_interval`` + 0.5 s is missing; or the sidecar says so."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from kill_campaign import Way, campaign
from sidecars import sidecar_when
from slow import slow

from timing_logger import TimingLogger
from timing_logger.schema.defaults import RECORD_LATE_S
from timing_logger.schema.record import RawRecord
from timing_logger.sinks.csv import CsvSink

pytestmark = pytest.mark.both_cores
SHORT_S = 0.4


@pytest.mark.serial
@pytest.mark.parametrize(
    "beside",
    [(0, 1), slow((0, 5), "the same at more moments"), slow((2, 2), "the same beside busy loops")],
    ids=["quiet", "quiet, more often", "loaded"],
)
def test_after_a_kill_at_a_random_moment_only_the_latest_records_are_missing(
    beside: tuple[int, int],
) -> None:
    busy_loops, kills = beside
    way = Way(1000, busy_loops, SHORT_S)
    for kill in campaign(way, kills, seed=1):
        assert kill.recorded > 0
        assert not kill.misses(SHORT_S), kill


@pytest.mark.serial
def test_half_an_interval_after_the_first_record_rows_are_in_the_file(tmp_path: Path) -> None:
    with TimingLogger(0, tmp_path, flush_interval=2) as logger:
        logger.record_timing("A", 1.0)
        before_s = time.monotonic()
        sidecar_when(tmp_path, lambda content: content["counters"]["written"] == 1)
        assert time.monotonic() - before_s <= 1.5


def test_a_burst_is_not_left_to_wait_for_the_end_of_the_interval(tmp_path: Path) -> None:
    with TimingLogger(0, tmp_path, maxsize=1000, flush_interval=3600) as logger:
        for _ in range(300):
            logger.record_timing("A", 1.0)
        assert sidecar_when(tmp_path, lambda content: content["counters"]["written"] == 300)


def test_a_file_that_falls_behind_is_told_of_in_the_sidecar_and_once_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    really_write = CsvSink.write

    def write_slowly(self: CsvSink, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        time.sleep(0.00005 * len(batch))
        really_write(self, batch, wall_offset_ns)

    monkeypatch.setattr(CsvSink, "write", write_slowly)
    monkeypatch.setattr(CsvSink, "append_by", lambda self, write: 0)  # else C writes past the slow sink
    with TimingLogger(0, tmp_path, flush_interval=0.01) as logger:
        for _ in range(15_000):
            logger.record_timing("A", 1.0)
        sidecar = sidecar_when(tmp_path, lambda content: content["behind_s"] > 0.01 + RECORD_LATE_S)
        assert "written late" in sidecar["last_error"]
        assert logger.flush(30)
    assert sidecar_when(tmp_path, lambda content: content["closed"])["behind_s"] == 0
    assert sum("written late" in record.message for record in caplog.records) == 1


def test_an_interval_recorded_long_after_it_ended_is_not_late(tmp_path: Path) -> None:
    with TimingLogger(0, tmp_path, flush_interval=0.01) as logger:
        logger.record_interval("A", 1, 2)
        sidecar = sidecar_when(tmp_path, lambda content: content["counters"]["written"] == 1)
        assert sidecar["behind_s"] < 1
        assert sidecar["last_error"] == ""
