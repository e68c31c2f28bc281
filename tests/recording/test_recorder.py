"""Each column of a row that each recording call makes: as given, or as it stands when nothing is."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from both_cores import BuiltCore

from timing_logger.recording.cores.chosen import new_channel
from timing_logger.recording.sampling import StepPolicy
from timing_logger.schema.record import Record

GIVEN: dict[str, Any] = {
    "message_size": 8, "layer_name": "layer1", "phase": "dense", "iteration": 3, "epoch": 1, "group": "world",
    "group_size": 4, "seq": 17, "peer": 2, "work": 0.5,
}  # fmt: skip
STANDING = {"layer_name": "label", "phase": "of it", "iteration": 7, "epoch": 2, "work": 9}
BLANK = {"message_size_bytes": None, "group": "", "group_size": None, "seq": None, "peer": None}


class Bench(SimpleNamespace):
    """A recorder of every second iteration, for which an iteration, an epoch, work and a label stand."""

    recorder: Any
    channel: Any

    def rows(self) -> list[Record]:
        return list(map(Record._make, self.channel.take(100)))


@pytest.fixture
def bench(each_core: BuiltCore) -> Bench:
    channel = new_channel(100, each_core.classes.Channel)
    recorder: Any = each_core.recorder(StepPolicy(start_step=1, record_every_n_steps=2), channel)
    recorder._switch_on()
    recorder.set_current_iteration(7)
    recorder.set_current_epoch(2)
    recorder.set_current_work(9)
    return Bench(recorder=recorder, channel=channel)


def block(recorder: Any, **given: Any) -> None:
    with recorder.record_mpi_operation("SEND", **given):
        pass


def device_block(recorder: Any, **given: Any) -> None:
    with recorder.record_device_operation("SEND", **given):
        pass


def timing(recorder: Any, **given: Any) -> None:
    recorder.record_timing("SEND", 1.0, **given)


def interval(recorder: Any, **given: Any) -> None:
    recorder.record_interval("SEND", 5, 8, **given)


calls = pytest.mark.parametrize("call", [block, device_block, timing, interval])


@calls
def test_what_is_given_is_in_the_row(bench: Bench, call: Callable[..., None]) -> None:
    with bench.recorder.label("label", "of it"):
        call(bench.recorder, **GIVEN)
    (row,) = bench.rows()
    expected = {**GIVEN, "message_size_bytes": 8, "operation": "SEND", "clock": "host", "status": "ok"}
    del expected["message_size"]
    assert {name: getattr(row, name) for name in expected} == expected


@calls
def test_what_is_not_given_is_what_stands_or_blank(bench: Bench, call: Callable[..., None]) -> None:
    with bench.recorder.label("label", "of it"):
        call(bench.recorder)
    (row,) = bench.rows()
    expected = {**STANDING, **BLANK, "thread": "MainThread", "metadata": None}
    assert {name: getattr(row, name) for name in expected} == expected


@calls
def test_what_is_nothing_is_not_what_stands(bench: Bench, call: Callable[..., None]) -> None:
    """Zero and the empty text are values."""
    given = {"layer_name": "", "phase": "", "iteration": 1, "epoch": 0, "work": 0}
    with bench.recorder.label("label", "of it"):
        call(bench.recorder, **given)
    (row,) = bench.rows()
    assert {name: getattr(row, name) for name in given} == given


@calls
def test_an_iteration_that_is_left_out_has_no_row_whether_it_is_given_or_stands(
    bench: Bench, call: Callable[..., None]
) -> None:
    call(bench.recorder, iteration=4)
    assert bench.rows() == []
    bench.recorder.set_current_iteration(8)
    call(bench.recorder)
    assert bench.rows() == []
    call(bench.recorder, iteration=9)
    assert [row.iteration for row in bench.rows()] == [9]


def test_an_interval_may_have_another_clock_status_and_metadata(bench: Bench) -> None:
    bench.recorder.record_interval("A", 5, None, clock="device", status="mine", metadata={"a": 1})
    (row,) = bench.rows()
    assert (row.start_ns, row.end_ns, row.clock, row.status, row.metadata) == (
        5, None, "device", "mine", {"a": 1},
    )  # fmt: skip


def test_a_stated_time_is_the_rows_time_and_a_contradiction_its_status(bench: Bench) -> None:
    bench.recorder.record_timing("A", 5.0, start_counter=2.0, end_counter=2.005)
    bench.recorder.record_timing("A", 5.0, start_counter=2.0, end_counter=3.0)
    assert [(row.start_ns, row.end_ns, row.status) for row in bench.rows()] == [
        (2_000_000_000, 2_005_000_000, "ok"),
        (2_000_000_000, 2_005_000_000, "error:InconsistentCounters"),
    ]


def test_an_operation_without_a_block_has_what_stands_and_no_number(
    bench: Bench, each_core: BuiltCore
) -> None:
    with bench.recorder.label("label", "of it"):
        span = bench.recorder.begin_operation(each_core.classes.Span, "SEND", 8, None, "world", 4, 2)
        named = bench.recorder.begin_operation(each_core.classes.Span, "SEND", 8, "mine", "world", 4, 2)
    assert (span.operation, span.message_size_bytes, span.group, span.group_size, span.peer) == (
        "SEND", 8, "world", 4, 2,
    )  # fmt: skip
    assert {name: getattr(span, name) for name in STANDING} == STANDING
    assert (span.seq, math.isnan(span.elapsed_ms), span.thread) == (None, True, "MainThread")
    assert (named.layer_name, named.phase) == ("mine", "of it")
