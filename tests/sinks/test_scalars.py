"""Means of windows: each is written once all of its records have come, and the steps of a tag in order."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from timing_logger.schema.record import OK, UNRESOLVED, Record
from timing_logger.sinks.scalars import CLOSE_WINDOW, LogWriter, ScalarsSink, closes_window, in_window


class Curves:
    """A writer that keeps what it is given."""

    def __init__(self) -> None:
        self.points: list[tuple[str, float, int]] = []

    def add_scalar(self, tag: str, value: float, step: int, /) -> None:
        self.points.append((tag, value, step))


class Broken:
    """A writer that takes nothing."""

    def add_scalar(self, tag: str, value: float, step: int, /) -> None:
        raise SystemExit(tag)


def record(
    operation: str, ms: int | None, metadata: Any, *, phase: str = "train", status: str = OK
) -> Record:
    start_ns = 1_000
    end_ns = None if ms is None else start_ns + ms * 1_000_000
    return Record(0, 0, "", operation, phase, None, start_ns, end_ns, "host", "", None, None, None, "main",
                  status)._replace(metadata=metadata)  # fmt: skip


def timed(operation: str, ms: int | None, window: int, **fields: Any) -> Record:
    return record(operation, ms, in_window(window), **fields)


def closing(window: int, records: int, step: int, **fields: Any) -> Record:
    return record(CLOSE_WINDOW, None, closes_window(window, records=records, step=step), **fields)


@pytest.fixture
def curves() -> Curves:
    return Curves()


@pytest.fixture
def sink(curves: Curves) -> ScalarsSink:
    """One whose tags are phase and operation."""
    return ScalarsSink([curves], lambda record: f"{record.phase}/{record.operation}")


def test_a_window_has_the_mean_of_each_tag_in_ms(sink: ScalarsSink, curves: Curves) -> None:
    sink.write([timed("A", 1, 0), timed("A", 4, 0), timed("B", 5, 0), closing(0, 3, 10)], 0)
    assert curves.points == [("train/A", 2.5, 10), ("train/B", 5.0, 10)]
    assert (sink.taken, sink.progress) == (3, 2)


def test_a_window_waits_for_its_last_record(sink: ScalarsSink, curves: Curves) -> None:
    sink.write([timed("A", 1, 0), closing(0, 2, 10)], 0)
    assert curves.points == []
    sink.write([timed("A", 3, 0)], 0)
    assert curves.points == [("train/A", 2.0, 10)]


def test_a_window_that_is_not_closed_waits_and_is_discarded_at_the_end(
    sink: ScalarsSink, curves: Curves
) -> None:
    sink.write([timed("A", 1, 0)], 0)
    sink.close()
    assert curves.points == []


def test_a_closed_window_that_lacks_records_is_written_at_the_end(sink: ScalarsSink, curves: Curves) -> None:
    sink.write([timed("A", 1, 0), closing(0, 2, 10)], 0)
    sink.close()
    sink.close()
    assert curves.points == [("train/A", 1.0, 10)]


def test_a_window_is_not_written_before_the_one_before_it(sink: ScalarsSink, curves: Curves) -> None:
    sink.write([closing(0, 1, 10), timed("A", 2, 1), closing(1, 1, 20)], 0)
    assert curves.points == []
    sink.write([timed("A", 1, 0)], 0)
    assert curves.points == [("train/A", 1.0, 10), ("train/A", 2.0, 20)]


def test_a_record_that_comes_after_its_window_belongs_to_the_next_and_is_none_of_those_awaited(
    sink: ScalarsSink, curves: Curves
) -> None:
    sink.write([timed("A", 1, 0), closing(0, 1, 10)], 0)
    sink.write([timed("A", 3, 0), closing(1, 1, 20)], 0)
    assert curves.points == [("train/A", 1.0, 10)]
    sink.write([timed("A", 5, 1)], 0)
    assert curves.points[1:] == [("train/A", 4.0, 20)]


def test_a_window_is_closed_once(sink: ScalarsSink, curves: Curves) -> None:
    sink.write([closing(0, 0, 10)], 0)
    sink.write([closing(0, 0, 20)], 0)
    sink.write([timed("A", 1, 1)], 0)
    sink.close()
    assert curves.points == []


def test_phases_have_windows_of_their_own(sink: ScalarsSink, curves: Curves) -> None:
    sink.write([timed("A", 1, 0), timed("A", 2, 0, phase="val"), closing(0, 1, 10, phase="val")], 0)
    assert curves.points == [("val/A", 2.0, 10)]


def test_what_has_failed_or_no_known_duration_is_awaited_and_not_in_the_mean(
    sink: ScalarsSink, curves: Curves
) -> None:
    sink.write(
        [timed("A", 9, 0, status=UNRESOLVED), timed("A", None, 0), timed("A", 1, 0), closing(0, 3, 10)], 0
    )
    assert curves.points == [("train/A", 1.0, 10)]


def test_records_without_a_window_are_left_out(sink: ScalarsSink, curves: Curves) -> None:
    sink.write([record("A", 1, None), timed("A", 3, 0), closing(0, 1, 10)], 0)
    assert curves.points == [("train/A", 3.0, 10)]
    assert sink.taken == 1


def test_a_writer_that_fails_is_told_of_once_and_keeps_nothing_from_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    curves = Curves()
    sink = ScalarsSink([Broken(), Broken(), curves], lambda record: record.operation)
    sink.write([timed("A", 1, 0), timed("B", 2, 0), closing(0, 2, 10)], 0)
    assert curves.points == [("A", 1.0, 10), ("B", 2.0, 10)]
    said = "timing logger: Broken took no scalar: SystemExit('A')"
    assert [record.getMessage() for record in caplog.records] == [said, said]  # of two writers


def test_a_log_has_a_line_for_each_scalar(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "mine"):
        LogWriter(logging.getLogger("mine")).add_scalar("time_ms", 3.214, 7)
    assert [record.getMessage() for record in caplog.records] == ["time_ms: 3.21"]
