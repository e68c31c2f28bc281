"""Threads that record at once, with the interpreter's lock or without: rows are whole and accounted for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any

import pytest
from both_cores import CORES, BuiltCore
from both_cores import needs_both as needs_native
from busy_threads import THREADS, Group, Watcher, Worker, assert_whole, run_all
from limits import PROCESS_S
from places import ROOT
from processes import rows
from slow import slow

from timing_logger import TimingLogger
from timing_logger.recording.cores.chosen import new_channel
from timing_logger.schema.record import COLUMNS
from timing_logger.sinks.memory import MemorySink

HAS_GLOBAL_LOCK = getattr(sys, "_is_gil_enabled", lambda: True)()


def rows_of(folder: Path) -> list[dict[str, str]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows(folder / "timing-rank0.csv")]


def begun_and_run(core: BuiltCore, logger: TimingLogger, rounds: int) -> list[Worker]:
    """Run the workers, and whoever looks at their calls; return the former."""
    begun: deque[Any] = deque()
    logger.set_current_iteration(5000)
    logger.set_current_epoch(10_000)
    workers = [Worker(core, logger, number, begun) for number in range(THREADS)]
    watcher = Watcher(logger)
    looking = threading.Thread(target=watcher.run)
    looking.start()
    run_all((f"worker{worker.thread}", lambda worker=worker: worker.run(rounds)) for worker in workers)
    watcher.is_over = True
    looking.join()
    while begun:
        workers[0].end_one()
    if watcher.failure is not None:
        raise watcher.failure
    return workers


@pytest.mark.parametrize("rounds", [15, slow(200, "the same race thirteen times as long")])
@pytest.mark.parametrize("maxsize", [50, 100_000])
def test_rows_of_threads_that_record_at_once_are_whole_and_accounted_for(
    each_core: BuiltCore, maxsize: int, rounds: int, tmp_path: Path
) -> None:
    logger = each_core.logger(0, tmp_path, maxsize=maxsize, flush_interval=0.001, pause_rows=False)
    workers = begun_and_run(each_core, logger, rounds)
    logger.flush(60)
    logger.close()
    stats, found = logger.stats, rows_of(tmp_path)
    assert stats.accepted == sum(worker.n_records for worker in workers) == stats.written + stats.dropped
    assert (stats.pending, stats.written) == (0, len(found))
    for row in found:
        assert_whole(row)
    once = Counter((row["operation"], row["message_size_bytes"]) for row in found)
    assert set(once.values()) == {1}
    assert maxsize == 50 or stats.dropped == 0


def test_pauses_of_the_collector_are_rows_among_those_of_many_threads(
    each_core: BuiltCore, tmp_path: Path
) -> None:
    logger = each_core.logger(0, tmp_path, flush_interval=0.001)
    workers = begun_and_run(each_core, logger, 8)
    logger.flush(60)
    logger.close()
    stats, found = logger.stats, rows_of(tmp_path)
    of_threads = [row for row in found if row["operation"] not in ("GC", "IMPORT")]
    assert len(of_threads) == sum(worker.n_records for worker in workers)
    assert (stats.accepted, stats.dropped, stats.pending) == (len(found), 0, 0)


@pytest.mark.parametrize("attempts", [4, slow(60, "the same race fifteen times as often")])
def test_each_block_is_accounted_for_once_if_the_logger_is_closed_meanwhile(
    each_core: BuiltCore, tmp_path: Path, attempts: int
) -> None:
    for attempt in range(attempts):  # one in ten was off by one
        logger = each_core.logger(0, tmp_path / str(attempt), flush_interval=0.001, pause_rows=False)
        half_way = threading.Barrier(3)

        def record(logger: Any = logger, half_way: threading.Barrier = half_way) -> None:
            for i in range(400):
                with logger.record_mpi_operation("A", i), logger.record_device_operation("B", i):
                    pass
                if i == 200:
                    half_way.wait()

        def close(logger: Any = logger, half_way: threading.Barrier = half_way) -> None:
            half_way.wait()
            logger.close()

        run_all([("one", record), ("two", record), ("closes", close)])
        stats = logger.stats
        assert stats.accepted == 2 * 2 * 400 == stats.written + stats.dropped + stats.pending
        # Over the Python core, of each thread one, if it had room just before the queue was closed.
        assert stats.pending <= (0 if each_core is CORES["native"] else 2)
        assert stats.written == len(rows_of(tmp_path / str(attempt)))


@needs_native
def test_threads_that_number_collectives_of_one_group_at_once_get_each_number_once() -> None:
    count = CORES["native"].classes.CollectiveCount()
    got: list[list[int]] = [[] for _ in range(THREADS)]
    run_all(
        (f"worker{i}", lambda mine=mine: mine.extend(count.next_collective() for _ in range(5000)))
        for i, mine in enumerate(got)
    )
    assert sorted(number for mine in got for number in mine) == list(range(THREADS * 5000))


@needs_native
def test_a_forked_child_leaves_all_of_the_channels_that_threads_made_at_once() -> None:
    def make(mine: list[Any]) -> None:
        for _ in range(100):
            mine.append(new_channel(10, CORES["native"].classes.Channel))
            mine[-1].put((1, 0, "", "A", "", 8, 1, 2, "host", "", 1, 1, 1, "T", "ok", "", None))

    made: list[list[Any]] = [[] for _ in range(THREADS)]
    run_all((f"worker{i}", lambda mine=mine: make(mine)) for i, mine in enumerate(made))
    child = os.fork()
    if child == 0:
        os._exit(min(255, sum(len(channel) for mine in made for channel in mine)))
    assert os.waitpid(child, 0)[1] == 0


def test_threads_record_by_an_iteration_that_another_one_sets_meanwhile(
    each_core: BuiltCore, sink: MemorySink
) -> None:
    logger = each_core.logger(0, None, sinks=[sink], maxsize=1000, pause_rows=False)
    found: set[tuple[type, ...]] = set()
    is_over = threading.Event()

    def set_state() -> None:
        for i in range(5000):
            logger.set_current_iteration(10**6 + i)
            logger.set_current_epoch(10**6 + i)
            logger.set_current_work(0.5 + i)
        is_over.set()

    def record() -> None:
        while not is_over.is_set():
            with logger.record_mpi_operation("A") as timer:
                found.add((type(timer.iteration), type(timer.epoch), type(timer.work)))

    logger.set_current_iteration(10**6)
    logger.set_current_epoch(10**6)
    logger.set_current_work(0.5)
    run_all([("sets", set_state), *((f"records{i}", record) for i in range(3))])
    logger.close()
    assert found == {(int, int, float)}


def test_the_wait_for_an_operation_is_written_once_if_its_end_is_seen_as_its_thread_begins_to_wait(
    each_core: BuiltCore, sink: MemorySink
) -> None:
    logger: Any = each_core.logger(0, None, sinks=[sink], maxsize=100_000, pause_rows=False)
    group, begun = Group(each_core, 0), [None]
    rounds = 25 if HAS_GLOBAL_LOCK else 3000  # with the lock, threads seldom take turns

    def begin() -> None:
        for i in range(rounds):
            operation = logger.begin_background("A", 8, None, group, i, None, time.perf_counter_ns())
            begun[0] = operation
            operation.block_from(time.perf_counter_ns(), None)
            while begun[0] is not None:
                pass

    def end() -> None:
        for _ in range(rounds):
            while (operation := begun[0]) is None:
                pass
            operation.end(None)
            begun[0] = None

    run_all([("begins", begin), ("ends", end)])
    assert logger.flush(60)
    assert Counter(record.operation for record in sink.records) == {"A": rounds, "WAIT": rounds}


NOT_SWITCHED_ON = "import sys, timing_logger as t; print(t.recording_core, sys._is_gil_enabled())"


@needs_native
@pytest.mark.skipif(HAS_GLOBAL_LOCK, reason="this Python runs with its global lock")
def test_the_native_core_is_the_one_in_use_without_the_global_lock_and_leaves_it_off() -> None:
    command = [sys.executable, "-W", "error", "-c", NOT_SWITCHED_ON]
    as_users_are = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=PROCESS_S, cwd=ROOT, env=as_users_are
    )
    assert run.stdout == "native False\n", run.stderr
