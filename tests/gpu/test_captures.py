"""Captures of CUDA graphs on a real GPU are rows, and the counts of its allocator can be read during them."""

from __future__ import annotations

import pytest
import torch

from timing_logger import TimingLogger
from timing_logger.recording.device.accelerator import allocator_counters
from timing_logger.sinks.memory import MemorySink


@pytest.fixture
def recording(sink: MemorySink) -> TimingLogger:
    return TimingLogger(0, log_dir=None, sinks=[sink], pause_rows=True, flush_interval=0.005)


def captures(logger: TimingLogger, sink: MemorySink) -> list[tuple[str, str]]:
    logger.close()
    return [(row.clock, row.status) for row in sink.records if row.operation == "GRAPH_CAPTURE"]


def test_a_capture_in_the_strictest_mode_is_a_row_and_replays(
    recording: TimingLogger, sink: MemorySink
) -> None:
    values, graph = torch.ones(8, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="global"):
        doubled = 2 * values
    values.fill_(3.0)
    graph.replay()
    assert doubled.tolist() == [6.0] * 8
    assert captures(recording, sink) == [("host", "ok")]


def test_callables_made_into_graphs_have_a_row_for_each_pass(
    recording: TimingLogger, sink: MemorySink
) -> None:
    layer = torch.nn.Linear(4, 4).cuda()
    sample = torch.ones(2, 4, device="cuda", requires_grad=True)
    torch.cuda.make_graphed_callables(layer, (sample,))
    assert captures(recording, sink) == [("host", "ok")] * 2  # forward and backward


def test_the_allocator_is_asked_during_a_capture_without_breaking_it() -> None:
    values, graph = torch.ones(8, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        doubled = 2 * values
        counters = allocator_counters()
    graph.replay()
    assert doubled.tolist() == [2.0] * 8
    assert set(counters) == {"num_alloc_retries", "num_ooms"}


def test_memory_that_does_not_suffice_is_counted() -> None:
    before = allocator_counters()["num_ooms"]
    with pytest.raises(torch.cuda.OutOfMemoryError):
        torch.empty(2 * torch.cuda.get_device_properties(0).total_memory, dtype=torch.uint8, device="cuda")
    assert allocator_counters()["num_ooms"] == before + 1
