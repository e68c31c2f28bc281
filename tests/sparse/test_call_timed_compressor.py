"""The rows of a compressor: which step, how many bytes, and that the payloads are those of the compressor."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from allreduce_instrumentation.compressors import FP16, NoCompression, SparsePayload, TopK
from allreduce_instrumentation.sparse import _call
from allreduce_instrumentation.sparse._call import TimedCompressor
from timing_logger import TimingLogger
from timing_logger.sinks.memory import MemorySink

HOST = torch.device("cpu")
GIVEN = torch.tensor([1.0, -8.0, 0.5, 4.0])


def rows(sink: MemorySink, logger: TimingLogger) -> list[tuple[str, int | None]]:
    logger.flush()
    return [(row.operation, row.message_size_bytes) for row in sink.records]


@pytest.fixture
def compressor() -> TopK:
    return TopK(0.5)


@pytest.fixture
def timed(compressor: TopK, logger: TimingLogger) -> TimedCompressor:
    return TimedCompressor(compressor, HOST, HOST, logger)


def picked(timed: TimedCompressor) -> SparsePayload:
    payload = timed.compress(GIVEN, "w")
    assert isinstance(payload, SparsePayload)
    return payload


def bytes_of(payload: SparsePayload) -> int:
    return payload.values.nbytes + payload.indices.nbytes


def test_a_compression_has_the_bytes_before_it(
    timed: TimedCompressor, sink: MemorySink, logger: TimingLogger
) -> None:
    payload = picked(timed)
    assert (payload.indices.tolist(), payload.values.tolist()) == ([1, 3], [-8.0, 4.0])
    assert timed.density == 0.5
    assert rows(sink, logger) == [("COMPRESS", 16)]


def test_picking_above_a_threshold_is_a_compression(
    timed: TimedCompressor, sink: MemorySink, logger: TimingLogger
) -> None:
    assert timed.compress_above(GIVEN, "w", 5.0).indices.tolist() == [1]
    assert rows(sink, logger) == [("COMPRESS", 16)]


def test_a_merge_and_a_mean_have_the_bytes_of_all_their_payloads(
    timed: TimedCompressor, sink: MemorySink, logger: TimingLogger
) -> None:
    payload = picked(timed)
    merged, dropped = timed.merge([payload, payload], 1)
    assert (merged.values.tolist(), dropped.values.tolist()) == ([-16.0], [8.0])
    assert timed.decompress_mean([payload, payload], 4).tolist() == [0.0, -4.0, 0.0, 2.0]
    twice = 2 * bytes_of(payload)
    assert rows(sink, logger) == [("COMPRESS", 16), ("MERGE", twice), ("DECOMPRESS", twice)]


def test_what_is_given_back_and_remembered_is_with_the_compressor(
    timed: TimedCompressor, compressor: TopK
) -> None:
    payload = picked(timed)
    timed.give_back("w", payload.indices, payload.values)
    residual = compressor.residual("w")
    assert residual is not None
    assert residual.tolist() == GIVEN.tolist()
    state = replace(timed.state("w"), calls=7)
    timed.set_state("w", state)
    assert compressor.state("w") == state


def test_a_rounding_has_the_bytes_before_it_and_its_reverse_those_of_the_payload(
    sink: MemorySink, logger: TimingLogger
) -> None:
    timed = TimedCompressor(FP16(), HOST, HOST, logger)
    payload = timed.compress(GIVEN, "w")
    assert timed.decompress(payload).tolist() == GIVEN.tolist()
    assert rows(sink, logger) == [("COMPRESS", 16), ("DECOMPRESS", 8)]


def test_what_compresses_nothing_has_no_row(sink: MemorySink, logger: TimingLogger) -> None:
    timed = TimedCompressor(NoCompression(), HOST, HOST, logger)
    assert timed.decompress(timed.compress(GIVEN, "w")).tolist() == GIVEN.tolist()
    assert rows(sink, logger) == []


def test_payloads_are_copied_to_the_host_or_to_the_device_that_is_to_have_them(
    compressor: TopK, logger: TimingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways: list[str] = []

    def to_host(tensor: torch.Tensor, *, timing_logger: TimingLogger) -> torch.Tensor:
        ways.append("host")
        return tensor

    def to_device(tensor: torch.Tensor, device: torch.device, *, timing_logger: TimingLogger) -> torch.Tensor:
        ways.append(device.type)
        return tensor

    monkeypatch.setattr(_call, "copy_to_host", to_host)
    monkeypatch.setattr(_call, "copy_to_device", to_device)
    picked(TimedCompressor(compressor, HOST, HOST, logger))
    picked(TimedCompressor(compressor, HOST, torch.device("meta"), logger))
    assert ways == ["host", "host", "meta", "meta"]  # values and indices
