"""The runtime profiler: what it times, when scalars come, and that nothing of it holds up training.

A scalar is compared with the rows of the very same intervals, so no test asserts how long anything took.
What a device would do is asked of the scripted stand-in.
"""

from __future__ import annotations

import copy
import inspect
import logging
import pickle
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from limits import LIMIT_S
from places import ROOT
from processes import run_job, run_python
from scripted_device import ScriptedAccelerator
from slow import slow
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from timing_logger import TimingLogger
from timing_logger.compat import _profiler_recording
from timing_logger.compat.runtime_profiler import RuntimeArguments, RuntimeProfiler
from timing_logger.errors import ConfigurationError
from timing_logger.recording import flusher as _flusher
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.device import devices
from timing_logger.schema.record import HOST_CLOCK, Record
from timing_logger.sinks.memory import MemorySink
from timing_logger.sinks.scalars import CLOSE_WINDOW, ScalarsSink, closes_window, in_window

LONG_NS = 100_000_000_000
"""A device that works so long between two marks: its durations are exact, whatever the host does."""


class Scalars:
    """A writer in memory."""

    def __init__(self) -> None:
        self.written: list[tuple[str, float, int]] = []
        self.threads: set[str] = set()

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        self.threads.add(threading.current_thread().name)
        self.written.append((tag, value, step))

    def of(self, tag: str) -> list[tuple[int, float]]:
        return [(step, value) for key, value, step in self.written if key == tag]

    def steps(self, tag: str) -> list[int]:
        return [step for step, _ in self.of(tag)]

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _, _ in self.written}


class Bench:
    """A profiler, its scalars and its rows."""

    def __init__(self, **options: Any) -> None:
        self._sink = MemorySink()
        self.logger = TimingLogger(0, None, sinks=[self._sink])
        self.scalars = Scalars()
        self.profiler = RuntimeProfiler(self.scalars, timing_logger=self.logger, **options)

    def flush(self) -> None:
        assert self.profiler.flush()
        assert self.logger.flush()

    def rows(self, operation: str, name: str = "main", phase: str = "train") -> list[Record]:
        self.flush()
        wanted = operation, name, phase
        return [r for r in self._sink.records if (r.operation, r.layer_name, r.phase) == wanted]

    def close(self) -> None:
        self.profiler.close()
        self.logger.close()


@pytest.fixture
def benches() -> Iterator[list[Bench]]:
    made: list[Bench] = []
    yield made
    for bench in made:
        bench.close()


@pytest.fixture
def bench(benches: list[Bench]) -> Bench:
    """With loaders called main and aux."""
    benches.append(Bench(dataloader_names=["main", "aux"]))
    return benches[-1]


def mean_ms(rows: list[Record]) -> float:
    durations = [row.end_ns - row.start_ns for row in rows if row.end_ns is not None]
    return sum(durations) / len(durations) / 1e6


def micro_batch(profiler: RuntimeProfiler, name: str | None = None) -> None:
    with profiler.forward(name):
        pass
    with profiler.backward(name):
        pass


def step(profiler: RuntimeProfiler, name: str | None = None, number: int | None = None) -> None:
    micro_batch(profiler, name)
    with profiler.optimizer(name, step=number):
        pass


def key(what: str, name: str = "main", phase: str = "train") -> str:
    return f"profile/{phase}/dl_{name}/time_{what}_ms"


TRAINED = ("data", "batch_wait", "forward", "backward", "optimizer")


# -- what is measured ------------------------------------------------------------------------------


def test_a_training_step_has_the_documented_keys(bench: Bench) -> None:
    for _ in bench.profiler.wrap([1, 2]):
        step(bench.profiler)
    bench.flush()
    assert bench.scalars.tags == {
        "profile/train/dl_main/time_data_ms",
        "profile/train/dl_main/time_batch_wait_ms",
        "profile/train/dl_main/time_forward_ms",
        "profile/train/dl_main/time_backward_ms",
        "profile/train/dl_main/time_optimizer_ms",
    }


def test_validation_has_the_documented_keys(bench: Bench) -> None:
    loader = bench.profiler.wrap([1, 2], "val_main", training=False)
    with bench.profiler.validation():
        for _ in loader:
            with bench.profiler.forward():
                pass
    bench.flush()
    assert bench.scalars.tags == {
        "profile/val/dl_val_main/time_data_ms",
        "profile/val/dl_val_main/time_forward_ms",
    }


def test_a_scalar_is_the_mean_of_the_intervals_since_the_last_step(bench: Bench) -> None:
    batches = iter(bench.profiler.wrap([1, 2, 3, 4]))
    for _ in range(2):
        for _ in range(2):  # two batches for one optimizer step
            next(batches)
            micro_batch(bench.profiler)
        with bench.profiler.optimizer():
            pass
    for what in ("data", "forward", "backward", "batch_wait"):
        rows = bench.rows(what.upper())
        assert len(rows) == 4
        assert bench.scalars.of(key(what)) == [(1, mean_ms(rows[:2])), (2, mean_ms(rows[2:]))]
    rows = bench.rows("OPTIMIZER")
    assert bench.scalars.of(key("optimizer")) == [(1, mean_ms(rows[:1])), (2, mean_ms(rows[1:]))]


def test_data_is_the_time_in_next(bench: Bench) -> None:
    inside: list[tuple[int, int]] = []

    def batches() -> Iterator[int]:
        began_ns = perf_counter_ns()
        inside.append((began_ns, perf_counter_ns()))
        yield 1

    before_ns = perf_counter_ns()
    next(bench.profiler.wrap(batches()))
    after_ns = perf_counter_ns()
    (row,) = bench.rows("DATA")
    assert row.end_ns is not None
    assert before_ns <= row.start_ns <= inside[0][0] <= inside[0][1] <= row.end_ns <= after_ns
    assert row.clock == "host"


def test_the_end_of_an_iteration_is_no_batch(bench: Bench) -> None:
    loader = bench.profiler.wrap([1, 2, 3])
    assert [list(loader), list(loader)] == [[1, 2, 3]] * 2
    assert len(bench.rows("DATA")) == 6


def test_two_interleaved_loaders_are_told_apart_by_the_batch_fetched_last(bench: Bench) -> None:
    main, aux = map(iter, bench.profiler.wrap_all([[1, 2, 3, 4], [5, 6]]))
    for source in (main, aux, main, main, aux, main):
        next(source)
        micro_batch(bench.profiler)
    counts = {
        name: [len(bench.rows(what, name)) for what in ("DATA", "FORWARD", "BACKWARD")]
        for name in ("main", "aux")
    }
    assert counts == {"main": [4, 4, 4], "aux": [2, 2, 2]}


def test_a_name_that_is_given_comes_before_the_batch_fetched_last(bench: Bench) -> None:
    main, aux = map(iter, bench.profiler.wrap_all([[1], [2]]))
    next(main), next(aux)
    step(bench.profiler, "main")
    assert [len(bench.rows(what)) for what in ("FORWARD", "BACKWARD", "OPTIMIZER")] == [1, 1, 1]


def test_the_batch_fetched_last_is_a_matter_of_the_thread(bench: Bench) -> None:
    main, aux = map(iter, bench.profiler.wrap_all([[1], [2]]))
    next(main)
    other = threading.Thread(target=next, args=(aux,))
    other.start()
    other.join()
    micro_batch(bench.profiler)
    assert len(bench.rows("FORWARD", "main")) == 1


def test_a_thread_that_fetched_nothing_works_for_the_only_loader(bench: Bench) -> None:
    bench.profiler.wrap([1])
    micro_batch(bench.profiler)
    assert len(bench.rows("FORWARD", "main")) == 1


def test_a_thread_that_fetched_nothing_spoils_the_mean_of_none_of_several(bench: Bench) -> None:
    bench.profiler.wrap_all([[1], [2]])
    micro_batch(bench.profiler)
    assert len(bench.rows("FORWARD", "unknown")) == 1


# -- batch wait ------------------------------------------------------------------------------------


def test_batch_wait_goes_from_the_last_block_to_the_batch(bench: Bench) -> None:
    for _ in bench.profiler.wrap([1, 2]):
        step(bench.profiler)
    data, wait = bench.rows("DATA")[1], bench.rows("BATCH_WAIT")[1]
    block_end_ns = bench.rows("OPTIMIZER")[0].end_ns
    assert block_end_ns is not None
    assert block_end_ns <= wait.start_ns <= data.start_ns
    assert wait.end_ns == data.end_ns


def test_batch_wait_is_about_the_block_whichever_loader_it_worked_for(bench: Bench) -> None:
    main, aux = map(iter, bench.profiler.wrap_all([[1, 2], [3]]))
    for source in (main, aux, main):
        next(source)
        micro_batch(bench.profiler)
    block_end_ns = bench.rows("BACKWARD", "aux")[0].end_ns
    assert block_end_ns is not None
    assert block_end_ns <= bench.rows("BATCH_WAIT", "main")[1].start_ns


def test_batch_wait_without_a_block_goes_from_batch_to_batch(bench: Bench) -> None:
    list(bench.profiler.wrap([1, 2]))
    assert bench.rows("BATCH_WAIT")[1].start_ns == bench.rows("DATA")[0].end_ns


def test_the_first_batch_is_waited_for_since_the_iterator_was_asked_for(bench: Bench) -> None:
    class Loader:
        def __iter__(self) -> Iterator[int]:
            self.asked_ns = perf_counter_ns()
            return iter([1])

    loader = bench.profiler.wrap(Loader())
    step(bench.profiler)
    checkpointed_ns = perf_counter_ns()
    list(loader)
    (wait,) = bench.rows("BATCH_WAIT")
    assert checkpointed_ns <= wait.start_ns <= loader.asked_ns <= bench.rows("DATA")[0].start_ns


def test_validation_is_no_waiting_for_a_batch(bench: Bench) -> None:
    batches = iter(bench.profiler.wrap([1, 2]))
    next(batches)
    with bench.profiler.validation():
        validated_ns = perf_counter_ns()
    next(batches)
    assert bench.rows("BATCH_WAIT")[1].start_ns >= validated_ns


# -- steps and windows -----------------------------------------------------------------------------


def test_scalars_come_at_optimizer_steps_and_not_before(bench: Bench) -> None:
    next(iter(bench.profiler.wrap([1, 2])))
    micro_batch(bench.profiler)
    bench.flush()
    assert bench.scalars.written == []
    with bench.profiler.optimizer():
        pass
    bench.flush()
    assert {step for _, _, step in bench.scalars.written} == {1}


def test_every_n_steps_the_mean_is_over_all_of_them(benches: list[Bench]) -> None:
    benches.append(bench := Bench(dataloader_names=["main"], log_scalars_every_n_steps=3))
    for _ in bench.profiler.wrap(range(7)):
        step(bench.profiler)
    for what in TRAINED:
        rows = bench.rows(what.upper())
        assert len(rows) == 7
        assert bench.scalars.of(key(what)) == [(3, mean_ms(rows[:3])), (6, mean_ms(rows[3:6]))]


def test_the_callers_step_numbers_are_used(benches: list[Bench]) -> None:
    benches.append(bench := Bench(log_scalars_every_n_steps=10))
    for number in (5, 10, 15, 20):
        step(bench.profiler, "main", number)
    bench.flush()
    assert bench.scalars.steps(key("forward")) == [10, 20]
    assert bench.profiler.global_step == 20
    assert [row.iteration for row in bench.rows("OPTIMIZER")] == [5, 10, 15, 20]


def test_a_step_that_is_no_number_is_counted_instead(bench: Bench) -> None:
    for number in (7, "eight", None):
        step(bench.profiler, "main", number)  # type: ignore[arg-type]
    bench.flush()
    assert bench.scalars.steps(key("optimizer")) == [7, 8, 9]


def test_training_that_resumes_counts_on(bench: Bench) -> None:
    bench.profiler.global_step = 41
    step(bench.profiler, "main")
    bench.flush()
    assert bench.scalars.steps(key("optimizer")) == [42]
    with pytest.raises(ConfigurationError, match=r"global_step must be an integer >= -1, and is 1\.5"):
        bench.profiler.global_step = 1.5  # type: ignore[assignment]


def test_rows_carry_the_step_under_way(bench: Bench) -> None:
    val = bench.profiler.wrap([1], "val_main", training=False)
    for _ in bench.profiler.wrap([1, 2]):
        step(bench.profiler)
    with bench.profiler.validation():
        list(val)
    for operation in ("DATA", "BATCH_WAIT", "FORWARD", "BACKWARD", "OPTIMIZER"):
        assert [row.iteration for row in bench.rows(operation)] == [1, 2]
    assert [row.iteration for row in bench.rows("DATA", "val_main", "val")] == [2]


def test_what_was_not_measured_has_no_scalar(bench: Bench) -> None:
    step(bench.profiler, "main")
    with bench.profiler.optimizer("main"):
        pass
    bench.flush()
    assert bench.scalars.steps(key("forward")) == [1]
    assert bench.scalars.steps(key("optimizer")) == [1, 2]


def sink_record(number: int, elapsed_ns: int) -> Record:
    blank = Record(
        None, None, "main", "FORWARD", "train", None, 0, elapsed_ns, "host", "", None, None, None, "", "ok"
    )
    return blank._replace(metadata=in_window(number))


def sink_close(number: int, records: int) -> Record:
    metadata = closes_window(number, records=records, step=number + 1)
    return sink_record(number, 0)._replace(operation=CLOSE_WINDOW, metadata=metadata)


def test_a_record_that_comes_after_its_window_is_in_the_next_mean() -> None:
    """As from a thread that recorded it while another one closed the window."""
    scalars = Scalars()
    sink = ScalarsSink([scalars], lambda record: record.operation)
    sink.write([sink_record(0, 2_000_000), sink_close(0, records=1)], 0)
    sink.write([sink_record(0, 4_000_000), sink_record(1, 8_000_000), sink_close(1, records=2)], 0)
    assert scalars.of("FORWARD") == [(1, 2.0)]
    sink.write([sink_record(1, 9_000_000)], 0)
    assert scalars.of("FORWARD") == [(1, 2.0), (2, 7.0)]


def test_what_another_thread_records_while_a_window_closes_is_in_the_next_one(bench: Bench) -> None:
    """Each step of one thread closes a window under the blocks of the others; none may wait for ever."""
    steps, blocks = 200, 500

    def blocks_of_a_thread() -> None:
        for _ in range(blocks):
            with bench.profiler.forward("aux"):
                pass

    threads = [threading.Thread(target=blocks_of_a_thread) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(steps):
        step(bench.profiler, "main")
    for thread in threads:
        thread.join()
    step(bench.profiler, "main")
    bench.flush()
    assert bench.scalars.steps(key("optimizer")) == list(range(1, steps + 2))
    assert len(bench.rows("FORWARD", "aux")) == 3 * blocks


# -- validation ------------------------------------------------------------------------------------


def test_validation_is_written_when_its_block_ends_for_the_last_step(benches: list[Bench]) -> None:
    benches.append(bench := Bench(dataloader_names=["main"], log_scalars_every_n_steps=50))
    val = bench.profiler.wrap([1, 2], "val_main", training=False)
    for _ in bench.profiler.wrap(range(3)):
        step(bench.profiler)
    with bench.profiler.validation():
        for _ in val:
            with bench.profiler.forward():
                pass
        bench.flush()
        assert bench.scalars.written == []
    bench.flush()
    for what in ("data", "forward"):
        rows = bench.rows(what.upper(), "val_main", "val")
        assert len(rows) == 2
        assert bench.scalars.of(key(what, "val_main", "val")) == [(3, mean_ms(rows))]
    assert len(bench.scalars.tags) == 2


def test_validation_within_validation_is_part_of_it(bench: Bench) -> None:
    val = bench.profiler.wrap([1], "val_main", training=False)
    with bench.profiler.validation():
        with bench.profiler.validation():
            list(val)
        list(val)
    rows = bench.rows("DATA", "val_main", "val")
    assert len(rows) == 2
    assert bench.scalars.of(key("data", "val_main", "val")) == [(0, mean_ms(rows))]


def test_validation_with_a_training_loader_is_validation(bench: Bench) -> None:
    loader = bench.profiler.wrap([1, 2])
    with bench.profiler.validation():
        list(loader)
    assert [len(bench.rows("DATA", phase=phase)) for phase in ("train", "val")] == [0, 2]


def test_after_validation_the_batch_at_hand_is_that_of_before(bench: Bench) -> None:
    batches = iter(bench.profiler.wrap([1, 2]))
    val = bench.profiler.wrap([3], "val_main", training=False)
    next(batches)
    with bench.profiler.validation():
        list(val)
    micro_batch(bench.profiler)
    assert len(bench.rows("FORWARD", "main", "train")) == 1


def test_validation_outside_of_any_block_is_written_at_the_next_step(bench: Bench) -> None:
    val = bench.profiler.wrap([1], "val_main", training=False)
    for _ in val:
        with bench.profiler.forward():
            pass
    bench.flush()
    assert bench.scalars.written == []
    step(bench.profiler, "main")
    bench.flush()
    assert bench.scalars.steps(key("forward", "val_main", "val")) == [1]


def test_a_last_validation_outside_of_any_block_is_written_at_close(bench: Bench) -> None:
    list(bench.profiler.wrap([1], "val_main", training=False))
    bench.profiler.close()
    assert bench.scalars.steps(key("data", "val_main", "val")) == [0]


# -- loaders ---------------------------------------------------------------------------------------


class Squares(Dataset[int]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return index**2


@pytest.mark.parametrize("workers", [0, slow(2, "worker processes are torch's own; without them is quick")])
def test_a_torch_dataloader_gives_the_same_batches(bench: Bench, workers: int) -> None:
    def loader() -> DataLoader[int]:
        return DataLoader(Squares(), 2, num_workers=workers, timeout=60 if workers else 0)

    timed = bench.profiler.wrap(loader())
    plain = [batch.tolist() for batch in loader()]
    assert [batch.tolist() for batch in timed] == plain
    assert [batch.tolist() for batch in timed] == plain
    assert len(timed) == 4
    assert len(bench.rows("DATA")) == 8


def test_the_sampler_can_be_told_the_epoch(bench: Bench) -> None:
    sampler: DistributedSampler[int] = DistributedSampler(Squares(), num_replicas=2, rank=1)
    timed = bench.profiler.wrap(DataLoader(Squares(), sampler=sampler))
    timed.sampler.set_epoch(3)  # type: ignore[attr-defined]
    assert sampler.epoch == 3


def test_attributes_are_read_from_and_set_on_the_loader(bench: Bench) -> None:
    class Loader(list[int]):
        epoch = 0

    loader = Loader([1])
    timed = bench.profiler.wrap(loader)
    timed.epoch = 5
    assert (loader.epoch, timed.epoch) == (5, 5)
    with pytest.raises(AttributeError, match="'Loader' object has no attribute 'nothing'"):
        timed.nothing  # noqa: B018


def test_a_loader_without_a_length_has_none(bench: Bench) -> None:
    timed = bench.profiler.wrap(map(int, "12"))
    with pytest.raises(TypeError, match="has no len"):
        len(timed)  # type: ignore[arg-type]
    assert timed
    assert list(timed) == [1, 2]


def test_a_generator_stays_an_iterator(bench: Bench) -> None:
    timed = bench.profiler.wrap(number for number in (1, 2, 3))
    assert (next(timed), list(timed)) == (1, [2, 3])
    assert len(bench.rows("DATA")) == 3


def test_names_are_given_in_the_order_of_wrapping(bench: Bench) -> None:
    bench.profiler.wrap([1], "aux")
    list(bench.profiler.wrap([1]))
    assert len(bench.rows("DATA", "main")) == 1
    with pytest.raises(ConfigurationError, match=r"dataloader_names=\['main', 'aux'\] has no name left"):
        bench.profiler.wrap([1])


def test_loaders_without_names_are_numbered(benches: list[Bench]) -> None:
    benches.append(bench := Bench())
    for loader in bench.profiler.wrap_all([[1], [2]]) + bench.profiler.wrap_all([[3], [4]], training=False):
        list(loader)
    for name, phase in (("0", "train"), ("1", "train"), ("val_0", "val"), ("val_1", "val")):
        assert len(bench.rows("DATA", name, phase)) == 1


@pytest.mark.parametrize(
    ("loader", "name", "message"),
    [
        ([1], "taken", "name='taken' belongs to a loader that was wrapped before"),
        ([1], "", "name must be a text that is not empty, and is ''"),
        ([1], 3, "name must be a text that is not empty, and is 3"),
        (5, "five", "loader must be something to iterate over, and is 5"),
    ],
)
def test_wrapping_in_vain_is_named(bench: Bench, loader: Any, name: Any, message: str) -> None:
    bench.profiler.wrap([1], "taken")
    with pytest.raises(ConfigurationError, match=message):
        bench.profiler.wrap(loader, name)


# -- exceptions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", ["forward", "backward", "optimizer", "validation"])
def test_an_exception_passes_unchanged(bench: Bench, block: str) -> None:
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught, getattr(bench.profiler, block)():
        raise error
    assert caught.value is error


def test_a_block_with_an_exception_is_an_error_row_and_in_no_mean(bench: Bench) -> None:
    with pytest.raises(KeyError), bench.profiler.forward("main"):
        raise KeyError
    step(bench.profiler, "main")
    failed, passed = bench.rows("FORWARD")
    assert (failed.status, passed.status) == ("error:KeyError", "ok")
    assert bench.scalars.of(key("forward")) == [(1, mean_ms([passed]))]


def test_an_optimizer_step_that_raised_is_none(bench: Bench) -> None:
    with pytest.raises(KeyError), bench.profiler.optimizer("main"):
        raise KeyError
    bench.flush()
    assert bench.profiler.global_step == 0
    assert bench.scalars.written == []


def test_a_loader_that_raises_is_an_error_row_and_no_batch(bench: Bench) -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    batches = bench.profiler.wrap(broken())
    next(batches)
    with pytest.raises(OSError, match="gone"):
        next(batches)
    assert [row.status for row in bench.rows("DATA")] == ["ok", "error:OSError"]
    assert len(bench.rows("BATCH_WAIT")) == 0


# -- writers ---------------------------------------------------------------------------------------


class Broken:
    """A writer that raises."""

    def __init__(self, error: BaseException) -> None:
        self.calls = 0
        self._error = error

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        self.calls += 1
        raise self._error


class Stuck(Scalars):
    """A writer that does not come back until ``resume``."""

    def __init__(self) -> None:
        super().__init__()
        self.stuck = threading.Event()
        self.resume = threading.Event()

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        self.stuck.set()
        assert self.resume.wait(LIMIT_S)
        super().add_scalar(tag, value, step)


def test_scalars_are_written_by_the_flush_thread(bench: Bench) -> None:
    step(bench.profiler, "main")
    bench.flush()
    assert bench.scalars.threads == {"timing-logger-flush"}


@pytest.mark.parametrize(
    "error", [RuntimeError("no space in the cloud"), SystemExit("no space in the cloud")]
)
def test_a_writer_that_raises_is_reported_once_and_the_others_are_served(
    caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    broken, scalars = Broken(error), Scalars()
    with RuntimeProfiler([broken, scalars]) as profiler:
        for _ in range(4):
            step(profiler, "main")
            assert profiler.flush()
    assert scalars.steps(key("forward")) == [1, 2, 3, 4]
    assert broken.calls == 12
    reports = [entry.getMessage() for entry in caplog.records]
    assert reports == [f"timing logger: Broken took no scalar: {error!r}"]


def test_a_stuck_writer_does_not_hold_up_training() -> None:
    writer = Stuck()
    with RuntimeProfiler(writer) as profiler:
        step(profiler, "main")
        assert writer.stuck.wait(LIMIT_S)
        for _ in range(500):
            step(profiler, "main")
        assert not profiler.flush(timeout=0.01)
        assert writer.written == []
        writer.resume.set()
        assert profiler.flush(timeout=60)
    assert writer.steps(key("optimizer")) == list(range(1, 502))


def test_a_stuck_writer_leaves_device_events_for_others(
    scripted_device: ScriptedAccelerator,
    caplog: pytest.LogCaptureFixture,
) -> None:
    writer = Stuck()
    with RuntimeProfiler(writer) as profiler:
        step(profiler, "main")
        assert writer.stuck.wait(LIMIT_S)
        for _ in range(2000):  # 6000 blocks, and there are 4096 pairs of events
            step(profiler, "main")
        (device,) = devices.devices_in_use()
        assert device.pool.exhausted.value == 0
        assert device.pool.made < 4096
        writer.resume.set()
        assert profiler.flush(timeout=60)
        step(profiler, "main")  # the writer is well again, and so are scalars
    assert writer.steps(key("optimizer"))[-1] == 2002
    assert re.search(r"\d{4} times are in no scalar: the writers did not keep up", caplog.text)


def test_no_more_times_wait_for_a_writer_than_are_allowed_to_and_the_log_counts_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_profiler_recording, "FLUSH_INTERVAL_S", 3600.0)
    monkeypatch.setitem(_profiler_recording.MAX_WAITING, HOST_CLOCK, 3)
    scalars = Scalars()
    windows = _profiler_recording.ScalarWindows([scalars], lambda record: record.operation, ["train"])
    for end_ns in (1_000_000, 2_000_000, 6_000_000, 100_000_000, 100_000_000):
        windows.record("FORWARD", "main", "train", (0, end_ns, HOST_CLOCK), "ok")
    windows.close_window("train", 7)
    windows.close_window("train", 8)  # with nothing in it
    windows.close()
    assert scalars.written == [("FORWARD", 3.0, 7)]
    assert "2 times are in no scalar" in caplog.text


def test_close_writes_what_is_due_once_and_nothing_after(bench: Bench) -> None:
    step(bench.profiler, "main")
    bench.profiler.close()
    step(bench.profiler, "main")
    bench.profiler.close()
    assert bench.profiler.flush()
    assert bench.scalars.steps(key("optimizer")) == [1]
    assert len(bench.rows("OPTIMIZER")) == 2  # rows go on: the logger is not the profiler's


def test_a_window_that_is_not_due_is_not_written_at_close(benches: list[Bench]) -> None:
    benches.append(bench := Bench(log_scalars_every_n_steps=10))
    step(bench.profiler, "main")
    bench.profiler.close()
    assert bench.scalars.written == []


def test_what_is_due_is_written_at_exit_by_a_program_that_does_not_close() -> None:
    run = run_python(
        """
        from timing_logger.compat.runtime_profiler import RuntimeProfiler

        class Printer:
            def add_scalar(self, tag, value, step):
                print(tag, step)

        profiler = RuntimeProfiler(Printer())
        with profiler.optimizer("main"):
            pass
        """
    )
    assert run.stdout == "profile/train/dl_main/time_optimizer_ms 1\n", run.stderr


def test_the_log_gets_a_line_for_each_scalar(
    bench: Bench,
    scripted_device: ScriptedAccelerator,
    caplog: pytest.LogCaptureFixture,
) -> None:
    scripted_device.work_ns = LONG_NS
    caplog.set_level(logging.INFO)
    with RuntimeProfiler(log=logging.getLogger("mine")) as profiler:
        step(profiler, "main")
    lines = [(entry.name, entry.levelname, entry.getMessage()) for entry in caplog.records]
    assert lines == [
        ("mine", "INFO", f"profile/train/dl_main/time_{what}_ms: 100000.00")
        for what in ("forward", "backward", "optimizer")
    ]


def test_the_log_is_the_packages_unless_another_is_given(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with RuntimeProfiler(log=True) as profiler:
        step(profiler, "main")
    assert {entry.name for entry in caplog.records} == {"timing_logger"}
    assert all(re.fullmatch(r"profile/train/dl_main/time_\w+_ms: \d+\.\d\d", m) for m in caplog.messages)
    assert len(caplog.messages) == 3


def test_tensorboard_reads_back_what_its_writer_was_given(bench: Bench, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer, RuntimeProfiler([writer, bench.scalars]) as profiler:
        val = profiler.wrap([1], "val_main", training=False)
        for _ in profiler.wrap(range(3), "main"):
            step(profiler)
        with profiler.validation():
            for _ in val:
                with profiler.forward():
                    pass
    events = EventAccumulator(str(tmp_path)).Reload()
    assert set(events.Tags()["scalars"]) == bench.scalars.tags
    assert len(bench.scalars.tags) == 7
    for tag in bench.scalars.tags:
        found = [(event.step, event.value) for event in events.Scalars(tag)]
        assert found == [(at, pytest.approx(ms, rel=1e-6)) for at, ms in bench.scalars.of(tag)]


# -- off, and other ranks --------------------------------------------------------------------------


def test_a_profiler_that_is_off_does_nothing(
    bench: Bench,
    scripted_device: ScriptedAccelerator,
) -> None:
    threads = threading.enumerate()
    profiler = RuntimeProfiler(
        bench.scalars, profile_training=False, timing_logger=bench.logger, synchronize=True
    )
    loader = [1, 2]
    assert profiler.wrap(loader) is loader
    assert profiler.wrap(loader, "again") is loader
    assert profiler.forward() is profiler.backward() is profiler.validation()
    with profiler.validation():
        step(profiler)
    assert threading.enumerate() == threads
    assert scripted_device.asks == []
    assert profiler.flush()
    profiler.close()
    bench.flush()
    assert bench.scalars.written == []
    assert bench.logger.stats.accepted == 0


def test_other_ranks_write_rows_but_no_scalars(bench: Bench) -> None:
    with RuntimeProfiler(bench.scalars, rank=1, log=True, timing_logger=bench.logger) as profiler:
        for _ in profiler.wrap([1], "main"):
            step(profiler)
    bench.flush()
    assert bench.scalars.written == []
    assert len(bench.rows("FORWARD")) == 1


def test_other_ranks_without_rows_do_nothing() -> None:
    loader = [1]
    assert RuntimeProfiler(Scalars(), rank=1).wrap(loader) is loader


# -- a device --------------------------------------------------------------------------------------


def test_a_time_that_is_lost_is_in_no_mean(
    scripted_device: ScriptedAccelerator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(devices, "PAIRS_PER_DEVICE", 2)
    device, scalars = scripted_device, Scalars()
    device.work_ns, device.busy = LONG_NS, True
    with RuntimeProfiler(scalars) as profiler:
        with profiler.forward("main"):
            pass
        step(profiler, "main")  # its backward and its optimizer find no events
        device.get_on()
        assert profiler.flush()
    assert scalars.written == [(key("forward"), 100_000.0, 1)]


# -- configuration ---------------------------------------------------------------------------------

# The example of the runtime profiler's own guide, as YAML gives it.
GUIDE: dict[str, Any] = {
    "training": {"profile_training": False},
    "logging": {"log_scalars_every_n_steps": 50},
    "data": {"train": {"dataloader_names": ["main", "aux"]}},
}


def test_the_type_of_arguments_that_are_passed_on_names_those_of_the_profiler() -> None:
    parameters = inspect.signature(RuntimeProfiler).parameters.values()
    typed = {name: kind.__forward_arg__ for name, kind in RuntimeArguments.__annotations__.items()}
    assert typed == {each.name: each.annotation for each in parameters if each.kind is each.KEYWORD_ONLY}


def test_the_guides_configuration_turns_profiling_off() -> None:
    loader = [1]
    assert RuntimeProfiler.from_config(GUIDE, writer=Scalars()).wrap(loader) is loader


def test_the_guides_configuration_sets_names_and_frequency() -> None:
    scalars = Scalars()
    with RuntimeProfiler.from_config({**GUIDE, "training": {}}, writer=scalars) as profiler:
        main, aux = profiler.wrap_all([range(60), range(60)])
        for _ in main:
            step(profiler)
        list(aux)
    assert scalars.steps(key("forward", "main")) == [50]


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"training": None, "logging": None, "data": None},
        {"training": {"epochs": 3}, "data": {"train": {"batch_size": 2}, "val": 5}, "model": "small"},
        {"logging": {"log_scalars_every_n_steps": None}, "data": {"train": {"dataloader_names": None}}},
    ],
)
def test_what_the_configuration_leaves_out_has_its_default(config: Any) -> None:
    scalars = Scalars()
    with RuntimeProfiler.from_config(config, writer=scalars) as profiler:
        for _ in profiler.wrap([1, 2]):
            step(profiler)
    assert scalars.steps(key("forward", "0")) == [1, 2]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (["training"], r"config must be a mapping of names to values, and is \['training'\]"),
        ({"training": "on"}, "training must be a mapping of names to values, and is 'on'"),
        ({"data": {"train": []}}, r"data.train must be a mapping of names to values, and is \[\]"),
        ({"training": {"profile_training": "false"}}, "profile_training must be True or False, and is 'fa"),
        ({"logging": {"log_scalars_every_n_steps": 0}}, "every_n_steps must be an integer >= 1, and is 0"),
        ({"data": {"train": {"dataloader_names": "main"}}}, "must be a list of names, and is 'main'"),
        ({"training": {"profile_training": True}}, "False contradicts training.profile_training=True"),
    ],
)
def test_a_bad_configuration_is_named(config: Any, message: str) -> None:
    off = {"profile_training": False} if "contradicts" in message else {}
    with pytest.raises(ConfigurationError, match=message):
        RuntimeProfiler.from_config(config, writer=Scalars(), **off)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "there is nowhere to write to: give one, or pass profile_training=False"),
        ({"writer": print}, r"writer must have add_scalar\(tag, value, step\), or be a list of such"),
        ({"writer": [Scalars(), None]}, "or be a list of such, and is None"),
        ({"log": "yes"}, "log must be True, False or a logging.Logger, and is 'yes'"),
        ({"log": True, "profile_training": 1}, "profile_training must be True or False, and is 1"),
        ({"log": True, "synchronize": None}, "synchronize must be True or False, and is None"),
        ({"log": True, "rank": -1}, "rank must be an integer >= 0, and is -1"),
        ({"log": True, "log_scalars_every_n_steps": 2.0}, "must be an integer >= 1, and is 2.0"),
        ({"log": True, "timing_logger": print}, "timing_logger must be a TimingLogger or None, and is"),
        ({"log": True, "dataloader_names": ["a", "a"]}, "dataloader_names must differ from each other"),
        ({"log": True, "dataloader_names": ["a", 1]}, "must be texts that are not empty, and are"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        RuntimeProfiler(**options)


# -- the example -----------------------------------------------------------------------------------


@pytest.mark.slow("trains an example; what it prints is tested on the profiler alone")
@pytest.mark.serial
def test_the_example_finds_the_slow_loader(tmp_path: Path) -> None:
    command = [
        sys.executable,
        ROOT / "examples" / "train_two_loaders.py",
        "--steps",
        20,
        "--log-dir",
        tmp_path,
    ]
    run = run_job(command, environment={"OMP_NUM_THREADS": "1"}, name="the example")
    assert run.returncode == 0, run.stderr
    assert "The bottleneck is the data of 'aux'" in run.stdout
    assert re.search(r"^20 steps; 356 rows in ", run.stdout, re.MULTILINE), run.stdout
    assert len(re.findall(r"^(?:train/dl_main|train/dl_aux|val/dl_val_main) ", run.stdout, re.MULTILINE)) == 3


# -- what goes otherwise than planned ------------------------------------------------------------------


def test_a_validation_that_was_never_left_ends_with_the_next_step_of_training(bench: Bench) -> None:
    """As a generator does that is left after one batch, and referenced on."""
    val_loader = bench.profiler.wrap([1, 2, 3], "val", training=False)

    def validated() -> Iterator[int]:
        with bench.profiler.validation():
            for batch in val_loader:
                with bench.profiler.forward():
                    pass
                yield batch

    abandoned = validated()
    next(abandoned)
    for _ in bench.profiler.wrap([1, 2]):
        step(bench.profiler)
    assert len(bench.rows("FORWARD")) == 1  # the first is still validation's
    assert bench.scalars.steps(key("forward")) == [2]
    assert key("forward", "val", "val") in bench.scalars.tags
    del abandoned


def test_stated_steps_that_skip_the_one_due_emit_at_the_next(benches: list[Bench]) -> None:
    """As batch numbers do under accumulation: 3, 7, 11, ... of which not one can be divided by ten."""
    benches.append(Bench(log_scalars_every_n_steps=10))
    for number in range(3, 40, 4):
        step(benches[-1].profiler, "main", number)
    benches[-1].flush()
    assert benches[-1].scalars.steps(key("optimizer")) == [11, 23, 31]


def test_a_step_that_is_a_whole_float_is_that_number(bench: Bench) -> None:
    step(bench.profiler, "main", 100.0)  # type: ignore[arg-type]
    bench.flush()
    assert bench.scalars.steps(key("optimizer")) == [100]


def test_a_step_that_is_no_number_is_counted_and_told_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        step(bench.profiler, "main", "soon")  # type: ignore[arg-type]
    bench.flush()
    assert bench.scalars.steps(key("optimizer")) == [1, 2]
    assert len(re.findall("step=str is no whole number", caplog.text)) == 1


@pytest.mark.parametrize("options", [{"rank": 1}, {"profile_training": False}])
def test_all_ranks_count_steps_and_refuse_names_alike(options: dict[str, Any]) -> None:
    profiler = RuntimeProfiler(Scalars(), **options)
    for _ in range(3):
        step(profiler)
    assert profiler.global_step == 3
    profiler.wrap([1], "main")
    with pytest.raises(ConfigurationError, match="name='main' belongs to a loader"):
        profiler.wrap([2], "main")


def test_a_mapping_is_no_list_of_loaders(bench: Bench) -> None:
    with pytest.raises(ConfigurationError, match="loaders must be a list of loaders, and is a dict"):
        bench.profiler.wrap_all({"main": [1]})  # type: ignore[arg-type]


def test_a_copy_of_a_wrapped_loader_is_timed_and_a_deep_one_is_the_loader(bench: Bench) -> None:
    loader = bench.profiler.wrap([1, 2])
    assert list(copy.copy(loader)) == [1, 2]
    assert len(bench.rows("DATA")) == 2
    for bare in (copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert bare == [1, 2]
        assert type(bare) is list


def test_without_a_batch_of_its_own_a_thread_trains_for_the_only_training_loader(bench: Bench) -> None:
    bench.profiler.wrap([1])
    bench.profiler.wrap([1], "val", training=False)
    step(bench.profiler)
    assert len(bench.rows("FORWARD")) == 1


class Slow(Scalars):
    """A writer that takes a while for each scalar, as one that speaks to a server does."""

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        time.sleep(0.02)
        super().add_scalar(tag, value, step)


def test_close_waits_for_a_writer_that_gets_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_flusher, "CLOSE_GRACE_S", 0.1)
    writer = Slow()
    with RuntimeProfiler(writer) as profiler:
        for _ in range(3):
            step(profiler, "main")
    assert len(writer.written) == 9


# -- waiting for the device ------------------------------------------------------------------------


@pytest.mark.parametrize("synchronize", [True, False])
def test_a_block_that_synchronises_waits_for_the_stream_before_it_and_at_its_end(
    scripted_device: ScriptedAccelerator, benches: list[Bench], synchronize: bool
) -> None:
    scripted_device.busy = True  # until it is waited for
    benches.append(Bench(synchronize=synchronize))
    waiting: list[int] = []
    with benches[0].profiler.forward("main"):
        waiting.append(len(scripted_device.queue))
    waiting.append(len(scripted_device.queue))
    assert waiting == ([1, 0] if synchronize else [1, 2])  # marks; that of the block's begin is one
    assert scripted_device.asks.count("record") == (4 if synchronize else 2)
    scripted_device.get_on()
