"""P2: accepted = written + dropped + pending, exactly, and nothing is lost in silence."""

from __future__ import annotations

import csv
import json
import logging
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import PROCESS_S
from misbehaving_sinks import FullDiskSink, PoisonedSink
from places import ROOT
from processes import rows, run_python
from sidecars import sidecar_when
from slow import examples, slow

from timing_logger import TimingLogger
from timing_logger.recording.cores import chosen as core
from timing_logger.recording.cores.channel import Channel
from timing_logger.schema import ring_file
from timing_logger.schema.timing_files import sidecar_path
from timing_logger.sinks.memory import MemorySink

pytestmark = pytest.mark.both_cores


@pytest.mark.parametrize("of_each", [20_000, slow(100_000, "the same five times as long")])
def test_sixteen_threads_into_a_small_queue_are_accounted_for_to_the_last_record(
    of_each: int, tmp_path: Path
) -> None:
    if core.NAME != "native":
        of_each //= 5
    logger = TimingLogger(0, tmp_path, maxsize=1000, flush_interval=0.001)

    def record() -> None:
        for i in range(of_each):
            logger.record_interval("A", i, i + 1)

    threads = [threading.Thread(target=record) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    logger.close()
    assert logger.path is not None
    stats = logger.stats
    assert stats.accepted == 16 * of_each
    assert stats.accepted == stats.written + stats.dropped
    assert stats.pending == 0
    assert stats.written == len(rows(logger.path))
    assert json.loads(sidecar_path(logger.path).read_text())["counters"] == stats._asdict()


WITHOUT_THE_GLOBAL_LOCK = """
import sys, threading
from timing_logger import TimingLogger
assert not sys._is_gil_enabled()
logger = TimingLogger(0, sys.argv[1], maxsize=int(sys.argv[2]))
start = threading.Barrier(64)
def record(thread):
    start.wait()
    for i in range(300):
        with logger.record_mpi_operation("A", thread, iteration=i):
            pass
threads = [threading.Thread(target=record, args=(thread,)) for thread in range(64)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
logger.close()
assert not sys._is_gil_enabled()
assert logger.stats.accepted == 64 * 300 == logger.stats.written + logger.stats.dropped, logger.stats
"""


@pytest.mark.parametrize("maxsize", [100, 100_000])
def test_64_threads_without_the_global_lock_are_accounted_for_to_the_last_record(
    tmp_path: Path, maxsize: int
) -> None:
    python = next(filter(None, map(shutil.which, ("python3.14t", "python3.13t"))), None)
    if python is None:
        pytest.skip("no free-threaded Python")
    command = [python, "-c", WITHOUT_THE_GLOBAL_LOCK, tmp_path, maxsize]
    subprocess.run(list(map(str, command)), cwd=ROOT, check=True, timeout=PROCESS_S)
    content = list(csv.DictReader((tmp_path / "timing-rank0.csv").read_text().splitlines()))
    found = [(row["message_size_bytes"], int(row["iteration"])) for row in content]
    assert len(found) == len(set(found))
    assert maxsize == 100 or len(found) == 64 * 300
    for thread in range(64):
        numbers = [number for of, number in found if of == str(thread)]
        assert numbers == sorted(numbers)


def test_drops_are_logged_once_and_stand_in_the_sidecar_before_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING),
        TimingLogger(0, tmp_path, maxsize=10, flush_interval=3600) as logger,
    ):
        for _ in range(3):
            for _ in range(100):
                logger.record_timing("A", 1.0)
            assert logger.flush()
        sidecar_when(tmp_path, lambda content: content["counters"]["dropped"] == 90)
    assert [r.message for r in caplog.records if "dropped" in r.message] == [
        "timing logger: records were dropped; stats and the sidecar count them"
    ]
    assert logger.stats == (300, 30, 270, 0)


def test_blocks_that_find_the_queue_full_are_counted() -> None:
    with TimingLogger(0, log_dir=None, sinks=[MemorySink()], maxsize=10, flush_interval=3600) as logger:
        for _ in range(100):
            with logger.record_mpi_operation("A"):
                pass
    assert logger.stats == (100, 10, 90, 0)


def test_a_record_that_no_sink_takes_is_dropped_and_its_neighbours_are_not() -> None:
    sink = PoisonedSink()
    with TimingLogger(0, log_dir=None, sinks=[sink]) as logger:
        for name in ("a", "poison", "b", "poison", "c"):
            logger.record_timing("A", 1.0, name)
        assert logger.flush()
        logger.record_timing("A", 1.0, "d")
    assert [r.layer_name for r in sink.records] == ["a", "b", "c", "d"]
    assert logger.stats == (6, 4, 2, 0)


def test_records_wait_for_a_full_disk_and_are_written_once_when_there_is_room() -> None:
    sink = FullDiskSink()
    with TimingLogger(0, log_dir=None, sinks=[sink], flush_interval=0.001) as logger:
        for i in range(3000):
            logger.record_timing("A", 1.0, iteration=i)
        assert not logger.flush(1.0)
        assert logger.stats == (3000, 0, 0, 3000)
        sink.full = False
        assert logger.flush()
    assert [r.iteration for r in sink.records] == list(range(3000))


def test_what_a_full_disk_never_took_is_dropped_at_close() -> None:
    logger = TimingLogger(0, log_dir=None, sinks=[FullDiskSink()])
    for _ in range(3000):
        logger.record_timing("A", 1.0)
    logger.close()
    assert logger.stats == (3000, 0, 3000, 0)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.one_of(st.integers(1, 40), st.none()), max_size=20), st.integers(1, 30))
def test_the_order_is_kept_and_the_oldest_survive(steps: list[int | None], capacity: int) -> None:
    channel, taken, put = Channel(capacity), [], 0
    for step in steps:
        if step is None:
            taken += channel.take(capacity)
        else:
            for _ in range(step):
                channel.put((put,))
                put += 1
    counts = channel.counts()
    taken += channel.take(capacity)
    assert taken == sorted(taken)
    assert counts.accepted == put
    assert counts.accepted == len(taken) + counts.overflowed


def test_a_memory_sink_shows_records_by_name() -> None:
    sink = MemorySink()
    with TimingLogger(0, log_dir=None, sinks=[sink]) as logger:
        logger.record_timing("ALLREDUCE", 2.0, "layer1")
        logger.flush()
        assert sink.records[0].layer_name == "layer1"


def test_at_exit_the_log_says_how_many_records_came_after_close(caplog: pytest.LogCaptureFixture) -> None:
    logger = TimingLogger(0, log_dir=None, sinks=[MemorySink()])
    logger.close()
    for _ in range(3):
        logger.record_timing("LATE", 1.0)
    logger._close_at_exit()
    assert [record.message for record in caplog.records] == [
        "timing logger: 3 records came after close and were dropped"
    ]
    assert logger.stats == (3, 0, 3, 0)


@pytest.mark.slow("what is said at exit is tried without one")
def test_records_that_come_after_close_are_spoken_of_at_exit(tmp_path: Path) -> None:
    run = run_python(
        """
        import sys
        from timing_logger import TimingLogger
        logger = TimingLogger(0, sys.argv[1])
        logger.close()
        for _ in range(3):
            logger.record_timing("LATE", 1.0)
        """,
        tmp_path,
    )
    assert "3 records came after close and were dropped" in run.stderr


@pytest.fixture
def logger_and_slots(tmp_path: Path) -> Iterator[tuple[TimingLogger, Any]]:
    """A logger with room for 50,000 records, and the slots of its ring, as others see them."""
    if core.NAME != "native":
        pytest.skip("the Python core has no slots")
    (tmp_path / "rings").mkdir()
    with TimingLogger(
        0, tmp_path, maxsize=50_000, ring_dir=tmp_path / "rings", flush_interval=3600
    ) as logger:
        (ring,) = (tmp_path / "rings").iterdir()
        header = ring_file._header(ring.read_bytes()[:4096])
        first_slot = header.header_bytes + header.names_bytes + header.standing_bytes + header.open_bytes
        yield logger, np.memmap(ring, ring_file.SLOT, "r+", first_slot, header.slots)


def test_what_is_not_found_whole_in_memory_is_dropped_and_told_of_and_all_else_is_written(
    logger_and_slots: tuple[TimingLogger, Any], caplog: pytest.LogCaptureFixture
) -> None:
    logger, slots = logger_and_slots
    for n in range(100):
        logger.record_timing("A", 1.0, iteration=n)
    slots["ticket"][[0, *range(10, 20)]] = 0
    slots["names"][30] = 1 << 15
    slots["has"][40] = ring_file.ELSEWHERE
    assert logger.flush()
    assert logger.stats == (100, 87, 13, 0)
    for n in range(100, 200):
        logger.record_timing("A", 1.0, iteration=n)
    logger.close()
    assert logger.stats == (200, 187, 13, 0)
    assert logger.path is not None
    expected = [n for n in range(200) if n not in (0, *range(10, 20), 30, 40)]
    assert [int(row[1]) for row in rows(logger.path)] == expected
    told = [r.message for r in caplog.records if "damaged in memory" in r.message]
    assert told == ["timing logger: records were damaged in memory and are dropped: 13 so far"]


def test_memory_with_nothing_but_damage_stops_nothing(logger_and_slots: tuple[TimingLogger, Any]) -> None:
    logger, slots = logger_and_slots
    for n in range(12_000):  # fewer than a quarter of the queue, which would be written at once
        logger.record_interval("A", 1, 2, metadata=None if n % 1000 else {"n": n})
    slots["ticket"] = 0
    assert logger.flush()
    assert logger.stats == (12_000, 0, 12_000, 0)
    logger.record_timing("B", 1.0)
    logger.close()
    assert logger.stats == (12_001, 1, 12_000, 0)
