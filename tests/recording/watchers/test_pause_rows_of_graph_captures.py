"""Captures of CUDA graphs are rows, by a stand-in for a device; ``tests/gpu`` has real ones."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch

from timing_logger import TimingLogger
from timing_logger.recording.watchers import pause_rows
from timing_logger.sinks.memory import MemorySink


class StandIn:
    """A graph of which a test says at which call its capture fails."""

    def __init__(self, fails_at: str = "") -> None:
        self.fails_at = fails_at

    def capture_begin(self, pool: object = None, *, capture_error_mode: str = "global") -> None:
        self.fail_at("begin")

    def capture_end(self) -> str:
        self.fail_at("end")
        return "ended"

    def fail_at(self, call: str) -> None:
        if self.fails_at == call:
            raise RuntimeError("operation not permitted when stream is capturing")


@pytest.fixture
def graph_class() -> Any:
    graphs: Any = ModuleType("graphs")
    graphs.CUDAGraph = type("CUDAGraph", (StandIn,), dict(vars(StandIn)))
    pause_rows.time_captures(graphs)
    return graphs.CUDAGraph


@pytest.fixture
def recording(sink: MemorySink) -> TimingLogger:
    return TimingLogger(0, log_dir=None, sinks=[sink], pause_rows=True)


def captures(logger: TimingLogger, sink: MemorySink) -> list[Any]:
    logger.close()
    return [row for row in sink.records if row.operation == "GRAPH_CAPTURE"]


def test_a_capture_is_a_row_from_its_begin_to_its_end(
    graph_class: Any, recording: TimingLogger, sink: MemorySink
) -> None:
    graph = graph_class()
    with recording.operation("AROUND"):
        graph.capture_begin((0, 1), capture_error_mode="relaxed")
        with recording.operation("WITHIN"):
            pass
        assert graph.capture_end() == "ended"
    (capture,) = captures(recording, sink)
    rows = {row.operation: row for row in sink.records}
    assert rows["AROUND"].start_ns < capture.start_ns < rows["WITHIN"].start_ns
    assert (rows["WITHIN"].end_ns or 0) < capture.end_ns < (rows["AROUND"].end_ns or 0)
    assert (capture.clock, capture.status) == ("host", "ok")


def test_a_capture_that_fails_at_its_end_has_a_row_that_says_so(
    graph_class: Any, recording: TimingLogger, sink: MemorySink
) -> None:
    graph = graph_class(fails_at="end")
    graph.capture_begin()
    with pytest.raises(RuntimeError, match="capturing"):
        graph.capture_end()
    assert [capture.status for capture in captures(recording, sink)] == ["error:RuntimeError"]


def test_a_capture_that_did_not_begin_is_none(
    graph_class: Any, recording: TimingLogger, sink: MemorySink
) -> None:
    graph = graph_class(fails_at="begin")
    with pytest.raises(RuntimeError, match="capturing"):
        graph.capture_begin()
    graph.capture_end()
    assert captures(recording, sink) == []


def test_the_graphs_of_torch_itself_are_timed(recording: TimingLogger) -> None:
    for name in ("capture_begin", "capture_end"):
        assert hasattr(getattr(torch.cuda.CUDAGraph, name), "__wrapped__")


def test_a_torch_without_graphs_is_left_alone() -> None:
    graphs = ModuleType("graphs")
    pause_rows.time_captures(graphs)
    assert not hasattr(graphs, "CUDAGraph")
