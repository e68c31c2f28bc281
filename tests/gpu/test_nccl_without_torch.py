"""NCCL's calls through nccl4py and CuPy, with one process: an all-gather is then a copy on the device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from recordings import Figure, Recording, elapsed_ms
from spinning import Known, spin

BETWEEN_MS = 0.1  # what may lie between two events that are recorded one after the other
GATHERED_BYTES = 1 << 30


@pytest.fixture
def buffers() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    given = torch.ones(GATHERED_BYTES, dtype=torch.uint8, device="cuda")
    yield given, torch.empty_like(given)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def spin_in(stream: torch.cuda.Stream) -> None:
    """Keep the stream busy, so that what the host does between two marks does not lie between them."""
    with torch.cuda.stream(stream):
        spin(5)


def test_a_call_of_nccl4py_lasts_as_long_as_events_around_it_say(
    recording: Recording, buffers: tuple[torch.Tensor, torch.Tensor], figure: Figure
) -> None:
    core = pytest.importorskip("nccl.core", reason="nccl4py is not installed")
    from allreduce_instrumentation.nccl import TimedCommunicator

    stream = torch.cuda.Stream()
    comm = TimedCommunicator.init(1, 0, core.get_unique_id(), timing_logger=recording.logger)
    comm.allgather(*buffers, stream=stream.cuda_stream)  # the first call sets up
    torch.cuda.synchronize()
    recording.forget()
    spin_in(stream)
    with Known(stream) as known:
        comm.allgather(*buffers, stream=stream.cuda_stream)
    (row,) = recording.rows
    with core.group():
        comm.allgather(*buffers, stream=stream.cuda_stream)
        comm.allreduce(*(tensor[:1024] for tensor in buffers), core.SUM, stream=stream.cuda_stream)
    grouped = recording.rows[1:]
    comm.destroy()
    figure(f"nccl4py, all-gather, events around it {known.ms:.3f} ms", f"{elapsed_ms(row):.3f} ms")
    assert (row.operation, row.clock, row.status) == ("ALLGATHER", "device", "ok")
    assert (row.message_size_bytes, row.group_size) == (GATHERED_BYTES, 1)
    assert elapsed_ms(row) == pytest.approx(known.ms, rel=0.1, abs=BETWEEN_MS)
    assert [(one.operation, one.status) for one in grouped] == [("ALLGATHER", "ok"), ("ALLREDUCE", "ok")]
    first, second = (one.end_ns or 0 for one in grouped)
    assert abs(first - second) / 1e6 < BETWEEN_MS  # they end together


def test_a_call_of_cupy_lasts_as_long_as_events_around_it_say(
    recording: Recording, buffers: tuple[torch.Tensor, torch.Tensor], figure: Figure
) -> None:
    nccl = pytest.importorskip("cupy.cuda.nccl", reason="CuPy is not installed", exc_type=ImportError)
    from allreduce_instrumentation.nccl import TimedNcclCommunicator

    given, result = (tensor.data_ptr() for tensor in buffers)
    stream = torch.cuda.Stream()
    untimed = nccl.NcclCommunicator(1, nccl.get_unique_id(), 0)
    comm = TimedNcclCommunicator(untimed, "gradients", timing_logger=recording.logger)
    comm.allGather(given, result, GATHERED_BYTES, nccl.NCCL_UINT8, stream.cuda_stream)
    torch.cuda.synchronize()
    recording.forget()
    spin_in(stream)
    with Known(stream) as known:
        comm.allGather(given, result, GATHERED_BYTES, nccl.NCCL_UINT8, stream.cuda_stream)
    (row,) = recording.rows
    figure(f"CuPy, all-gather, events around it {known.ms:.3f} ms", f"{elapsed_ms(row):.3f} ms")
    assert (row.operation, row.clock, row.status) == ("ALLGATHER", "device", "ok")
    assert (row.message_size_bytes, row.group) == (GATHERED_BYTES, "gradients")
    assert elapsed_ms(row) == pytest.approx(known.ms, rel=0.1, abs=BETWEEN_MS)
