"""Pauses of Python's garbage collector are rows."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

from timing_logger import TimingLogger
from timing_logger.recording.watchers import pause_rows
from timing_logger.schema import defaults
from timing_logger.sinks.memory import MemorySink


@pytest.fixture(autouse=True)
def only_own_collections() -> Iterator[None]:
    was = gc.isenabled()
    gc.disable()
    gc.freeze()  # what there is already takes long to look at
    yield
    gc.unfreeze()
    if was:
        gc.enable()


@pytest.fixture
def recording(sink: MemorySink) -> TimingLogger:
    return TimingLogger(0, log_dir=None, sinks=[sink], pause_rows=True)


def rows(logger: TimingLogger, sink: MemorySink) -> list[tuple[object, object, str]]:
    logger.close()
    return [(row.operation, row.phase, row.status) for row in sink.records]


def test_a_pause_that_lasts_is_a_row_with_its_generation_and_no_other_is(
    monkeypatch: pytest.MonkeyPatch, recording: TimingLogger, sink: MemorySink
) -> None:
    gc.collect(0)  # of hardly anything
    monkeypatch.setattr(defaults, "SHORTEST_COLLECTION_NS", 0)
    gc.collect(1)
    gc.collect()
    assert rows(recording, sink)[-2:] == [("GC", "generation 1", "ok"), ("GC", "generation 2", "ok")]


def test_it_has_the_instants_of_the_pause(recording: TimingLogger, sink: MemorySink) -> None:
    garbage = [[] for _ in range(20_000)]
    for one in garbage:
        one.append(one)
    del garbage, one
    with recording.operation("AROUND"):
        gc.collect()
    recording.close()
    pause, around = sink.records
    assert pause.operation == "GC"
    assert around.start_ns < pause.start_ns < (pause.end_ns or 0) < (around.end_ns or 0)
    assert (pause.end_ns or 0) - pause.start_ns > defaults.SHORTEST_COLLECTION_NS


def test_without_the_option_the_collector_is_left_alone(sink: MemorySink) -> None:
    before = list(gc.callbacks)
    with TimingLogger(0, log_dir=None, sinks=[sink]):
        assert gc.callbacks == before


def test_a_logger_that_is_closed_or_off_is_told_nothing(recording: TimingLogger) -> None:
    n_callbacks = len(gc.callbacks)
    recording.close()
    assert len(gc.callbacks) == n_callbacks - 1
    with TimingLogger(0, log_dir=None, enabled=False, pause_rows=True):
        assert len(gc.callbacks) == n_callbacks - 1


def test_a_forked_child_has_none(monkeypatch: pytest.MonkeyPatch, recording: TimingLogger) -> None:
    monkeypatch.setattr(defaults, "SHORTEST_COLLECTION_NS", 0)
    n_callbacks = len(gc.callbacks)
    child = os.fork()
    if not child:
        os._exit(len(gc.callbacks) != n_callbacks - 1)
    assert os.waitpid(child, 0)[1] == 0
    recording.close()


@pytest.mark.parametrize(("lasts_ns", "generations"), [(250_000, ["generation 2"]), (150_000, [])])
def test_a_pause_of_a_fifth_of_a_millisecond_or_more_has_a_row(
    monkeypatch: pytest.MonkeyPatch, recording: TimingLogger, sink: MemorySink,
    lasts_ns: int, generations: list[str],
) -> None:  # fmt: skip
    clock = iter([10**9, 10**9 + lasts_ns])
    monkeypatch.setattr(pause_rows, "perf_counter_ns", lambda: next(clock))
    for phase in ("start", "stop"):
        pause_rows._told(phase, {"generation": 2})
    assert [phase for _, phase, _ in rows(recording, sink)] == generations
