"""The contract with sinks is one for all: what holds for the timing file holds for each beside it."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from limits import LIMIT_S
from misbehaving_sinks import FullDiskSink, PoisonedSink, StalledSink

from timing_logger import TimingLogger
from timing_logger.schema.record import RawRecord
from timing_logger.schema.timing_files import sidecar_path
from timing_logger.sinks.memory import MemorySink

pytestmark = pytest.mark.both_cores


class OnceFullSink(FullDiskSink):
    """A sink whose first write fails, and no other."""

    def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        try:
            super().write(batch, wall_offset_ns)
        finally:
            self.full = False


def counted(folder: Path) -> list[dict[str, Any]]:
    """Return what the sidecar of rank 0 says of each further sink."""
    found: list[dict[str, Any]] = json.loads(sidecar_path(folder / "timing-rank0.csv").read_text())["sinks"]
    return found


def iterations(folder: Path) -> list[int]:
    with (folder / "timing-rank0.csv").open() as file:
        return [int(row["iteration"]) for row in csv.DictReader(file)]


def record(logger: TimingLogger, n_records: int) -> None:
    for number in range(n_records):
        logger.record_timing("A", 1.0, iteration=number)


def test_a_batch_that_a_further_sink_cannot_take_is_offered_again_and_synced(tmp_path: Path) -> None:
    sink = OnceFullSink()
    with TimingLogger(0, tmp_path, sinks=[sink], fsync=True, flush_interval=3600) as logger:
        record(logger, 3)
        assert not logger.flush()
        record(logger, 3)
        assert logger.flush()
        assert sink.syncs == 1
    assert [row.iteration for row in sink.records] == [0, 1, 2, 0, 1, 2]
    assert counted(tmp_path) == [{"sink": "OnceFullSink", "written": 6, "dropped": 0, "pending": 0}]


def test_what_a_further_sink_can_never_take_is_counted_and_costs_no_other_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sinks = [PoisonedSink(), MemorySink(), PoisonedSink()]
    with TimingLogger(0, tmp_path, sinks=sinks) as logger:
        for name in ("a", "poison", "b", "poison", "c"):
            logger.record_timing("A", 1.0, name)
    assert logger.stats == (5, 5, 0, 0)
    everything = ["a", "poison", "b", "poison", "c"]
    names = [[row.layer_name for row in sink.records] for sink in sinks]
    assert names == [["a", "b", "c"], everything, ["a", "b", "c"]]
    assert [(one["sink"], one["written"], one["dropped"]) for one in counted(tmp_path)] == [
        ("PoisonedSink", 3, 2), ("MemorySink", 5, 0), ("PoisonedSink 2", 3, 2)
    ]  # fmt: skip
    told = [record.getMessage() for record in caplog.records if "PoisonedSink" in record.getMessage()]
    assert told == [
        f"timing logger: a record could not be written, and {name} lacks it: ValueError('poison')"
        for name in ("PoisonedSink", "PoisonedSink 2")
    ]


def test_what_a_further_sink_takes_too_late_is_bounded_and_counted(tmp_path: Path) -> None:
    sink = FullDiskSink()
    with TimingLogger(0, tmp_path, sinks=[sink], maxsize=10, flush_interval=3600) as logger:
        for _ in range(5):
            record(logger, 8)
            assert not logger.flush()
    assert (iterations(tmp_path), logger.stats) == ([*range(8)] * 5, (40, 40, 0, 0))
    assert counted(tmp_path) == [{"sink": "FullDiskSink", "written": 0, "dropped": 40, "pending": 0}]


def test_a_further_sink_keeps_the_oldest_records_until_it_can_take_them(tmp_path: Path) -> None:
    sink = FullDiskSink()
    with TimingLogger(0, tmp_path, sinks=[sink], maxsize=10, flush_interval=3600) as logger:
        for _ in range(2):
            record(logger, 8)
            assert not logger.flush()
        sink.full = False
    assert [row.iteration for row in sink.records] == [*range(8), 0, 1]
    assert counted(tmp_path) == [{"sink": "FullDiskSink", "written": 10, "dropped": 6, "pending": 0}]


def test_a_first_sink_that_takes_nothing_costs_the_others_no_record() -> None:
    first, second = FullDiskSink(), MemorySink()
    logger = TimingLogger(0, None, sinks=[first, second], flush_interval=3600)
    record(logger, 3000)
    assert not logger.flush()
    logger.close()
    assert logger.stats == (3000, 0, 3000, 0)
    assert [row.iteration for row in second.records] == list(range(3000))


@pytest.mark.parametrize("method", ["sync", "close", "look_after"])
def test_an_error_of_one_sink_keeps_no_other_from_its_turn(tmp_path: Path, method: str) -> None:
    class Faulty(MemorySink):
        pass

    def fault() -> None:
        raise ValueError("faulty")

    class Whole(MemorySink):
        def __init__(self) -> None:
            super().__init__()
            self.called: list[str] = []

        def sync(self) -> None:
            self.called.append("sync")

        def close(self) -> None:
            self.called.append("close")

        def look_after(self) -> list[str]:
            self.called.append("look_after")
            return []

    faulty, whole = Faulty(), Whole()
    setattr(faulty, method, fault)
    with TimingLogger(0, tmp_path, sinks=[faulty, whole], fsync=True) as logger:
        record(logger, 3)
        assert logger.flush() is (method != "sync")
    assert {"sync", "close", "look_after"} == set(whole.called)
    assert len(faulty.records) == len(whole.records) == 3


def test_records_of_a_stalled_further_sink_are_in_the_file(tmp_path: Path) -> None:
    sink = StalledSink()
    logger = TimingLogger(0, tmp_path, sinks=[sink], flush_interval=0.001)
    try:
        record(logger, 3)
        assert sink.stalled.wait(LIMIT_S)
        assert logger.stats.written >= 1
    finally:
        sink.resume()
        logger.close()
    assert iterations(tmp_path) == [0, 1, 2]
    assert counted(tmp_path)[0]["written"] == 3
