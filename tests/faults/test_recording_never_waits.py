"""P1, P3: a recording call never raises, waits or does I/O, and what waits stays bounded."""

from __future__ import annotations

import gc
import tracemalloc
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from fault_programs import RECORDING_FINALIZERS, RECORDING_HANDLER
from limits import LIMIT_S
from misbehaving_sinks import StalledSink
from processes import run_python

from timing_logger import TimingLogger
from timing_logger.recording.cores.channel import BYTES_PER_RECORD
from timing_logger.sinks.memory import MemorySink

pytestmark = pytest.mark.both_cores


class Hostile:
    """Raises whatever it is asked."""

    def _refuse(self, *_: object) -> Any:
        raise RuntimeError("not for you")

    __bool__ = __eq__ = __len__ = __iter__ = __index__ = __int__ = __float__ = _refuse  # type: ignore[assignment]
    __mul__ = __rmul__ = __lt__ = __gt__ = __round__ = __str__ = __repr__ = _refuse  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


CALLS = {
    "record_mpi_operation": {"operation": "A"},
    "record_timing": {"operation": "A", "elapsed_ms": 1.0},
    "record_interval": {"operation": "A", "start_ns": 1, "end_ns": 2},
}


def arguments_of(call: str) -> list[str]:
    return [name for name in signature(getattr(TimingLogger, call)).parameters if name != "self"]


@pytest.mark.parametrize("every", [1, 2], ids=["all iterations", "every second iteration"])
@pytest.mark.parametrize("call", CALLS)
def test_whatever_a_recording_call_is_given_it_returns_and_leaves_a_row(
    call: str, every: int, tmp_path: Path
) -> None:
    arguments = arguments_of(call)
    with TimingLogger(0, tmp_path, record_every_n_steps=every, flush_interval=3600) as logger:
        for number, argument in enumerate(arguments, 1):
            span = getattr(logger, call)(**{**CALLS[call], argument: Hostile()})
            if span is not None:
                with span:
                    pass
            assert logger.flush()
            assert logger.stats == (number, number, 0, 0), argument
        logger.set_current_iteration(Hostile())  # type: ignore[arg-type]
    assert logger.stats == (len(arguments), len(arguments), 0, 0)


def test_recording_goes_on_while_the_disk_is_stalled_and_loses_nothing_that_fits() -> None:
    sink = StalledSink()
    logger = TimingLogger(0, log_dir=None, sinks=[sink], flush_interval=0.001, maxsize=50_000)
    logger.record_timing("FIRST", 1.0)
    assert sink.stalled.wait(LIMIT_S)
    for i in range(20_000):  # returns at all: the sink lets nothing through until resume
        with logger.record_mpi_operation("A", iteration=i):
            pass
    assert sink.records == []
    sink.resume()
    logger.close()
    assert [r.iteration for r in sink.records[1:]] == list(range(20_000))
    assert logger.stats == (20_001, 20_001, 0, 0)


def test_what_waits_for_a_stalled_disk_stays_within_the_stated_memory() -> None:
    capacity = 3_000
    sink = StalledSink()
    logger = TimingLogger(0, log_dir=None, sinks=[sink], flush_interval=0.001, maxsize=capacity)
    logger.record_timing("FIRST", 1.0)
    assert sink.stalled.wait(LIMIT_S)
    tracemalloc.start()
    for i in range(3 * capacity):
        logger.record_timing("A", 1.0, "layer1", i, "dense", i, i, group="world", group_size=4, seq=i, peer=i)
    used_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    stats = logger.stats
    sink.resume()
    logger.close()
    assert used_bytes <= capacity * BYTES_PER_RECORD
    assert stats.pending <= capacity + 1
    assert logger.stats.dropped == 2 * capacity


def test_a_signal_handler_may_record_flush_and_read_stats_at_any_moment() -> None:
    run = run_python(RECORDING_HANDLER, 60)
    assert run.returncode == 0, run.stderr


def test_a_finalizer_may_record_while_another_recording_call_is_at_work() -> None:
    cycles, finalized = 300, []

    class Cycle:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            finalized.append(1)
            logger.record_timing("DEL", 1.0)

    before = gc.get_threshold()
    with TimingLogger(0, log_dir=None, sinks=[MemorySink()], flush_interval=0.001) as logger:
        try:
            gc.set_threshold(1)
            for _ in range(cycles):
                Cycle()
                logger.record_timing("MAIN", 1.0)
        finally:
            gc.set_threshold(*before)
        while len(finalized) < cycles:
            gc.collect()  # does nothing while the flush thread collects
    assert logger.stats == (2 * cycles, 2 * cycles, 0, 0)


@pytest.mark.slow("the same more often, in a process of its own")
def test_finalizers_may_record_at_any_moment() -> None:
    run = run_python(RECORDING_FINALIZERS)
    assert run.returncode == 0, run.stderr
