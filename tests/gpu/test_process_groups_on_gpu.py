"""Process groups on a real GPU: NCCL's operations by its own clock, graphs, overlap, memory.

NCCL runs with one process here, where an all-gather is a copy on the device, which takes long enough to be
measured.
"""

from __future__ import annotations

import statistics
from typing import Any

import pytest
import torch
import torch.distributed as dist
from recordings import Figure, Recording, elapsed_ms
from spinning import Known, spin

from allreduce_instrumentation.torch_distributed._backends import has_nccl2
from timing_logger.schema.record import Record

BETWEEN_MS = 0.1  # what may lie between two events that are recorded one after the other

needs_nccl = pytest.mark.skipif(not dist.is_nccl_available(), reason="this torch has no NCCL")
has_both = pytest.mark.skipif(
    not hasattr(dist, "ProcessGroupNCCL2"), reason="NCCL has a second backend, nccl2, since torch 2.15"
)


@pytest.fixture
def recording(nccl: Recording) -> Recording:
    torch.cuda.synchronize()
    nccl.forget()
    return nccl


def summary(rows: list[Record]) -> list[tuple[str, str, str]]:
    return [(row.operation, row.clock, row.status) for row in rows]


# -- the right times -----------------------------------------------------------------------------------


@needs_nccl
def test_a_synchronous_collective_is_one_row_as_long_as_events_around_it_say(
    recording: Recording, gathered: tuple[torch.Tensor, torch.Tensor], figure: Figure
) -> None:
    spin(5)  # so that what the host does between two marks does not lie between them
    with Known() as known:
        dist.all_gather_into_tensor(*gathered)
    (row,) = recording.rows
    figure(f"NCCL, synchronous, events around it {known.ms:.3f} ms", f"{elapsed_ms(row):.3f} ms")
    assert summary([row]) == [("ALLGATHER", "device", "ok")]
    assert row.stream == f"cuda:{torch.cuda.current_device()}/0"
    assert elapsed_ms(row) == pytest.approx(known.ms, rel=0.1, abs=BETWEEN_MS)


@needs_nccl
def test_a_background_collective_is_two_rows_with_one_number(
    recording: Recording, gathered: tuple[torch.Tensor, torch.Tensor]
) -> None:
    dist.all_gather_into_tensor(*gathered, async_op=True).wait()
    operation, wait = recording.rows
    assert summary([operation, wait]) == [("IALLGATHER", "device", "ok"), ("WAIT", "device", "ok")]
    assert (operation.seq, operation.group) == (wait.seq, wait.group)
    assert elapsed_ms(wait) <= elapsed_ms(operation) + BETWEEN_MS


@needs_nccl
def test_a_background_collective_takes_as_long_as_nccl_says_itself(
    recording: Recording, gathered: tuple[torch.Tensor, torch.Tensor], figure: Figure
) -> None:
    group = dist.new_group([0])
    group._enable_collectives_timing()
    nccls_ms, ours_ms = [], []
    for repetition in range(11):
        work = dist.all_gather_into_tensor(*gathered, group=group, async_op=True)
        work.wait()
        torch.cuda.synchronize()
        if repetition:  # the first one makes the communicator
            nccls_ms.append(work._get_duration())
            ours_ms.append(elapsed_ms(recording.rows[0]))
        recording.forget()
    dist.destroy_process_group(group)
    nccls, ours = statistics.median(nccls_ms), statistics.median(ours_ms)
    figure(f"NCCL, in the background, its own duration {nccls:.3f} ms", f"{ours:.3f} ms")
    assert ours == pytest.approx(nccls, rel=0.1, abs=BETWEEN_MS)


@needs_nccl
@pytest.mark.parametrize("backend", ["nccl", pytest.param("nccl-legacy", marks=has_both)])
def test_rows_of_nccls_own_durations_agree_with_ours(
    recording: Recording,
    gathered: tuple[torch.Tensor, torch.Tensor],
    figure: Figure,
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
) -> None:
    monkeypatch.setenv("TORCH_NCCL_ENABLE_TIMING", "1")
    group = dist.new_group([0], backend=backend)
    for _ in range(11):
        dist.all_gather_into_tensor(*gathered, group=group, async_op=True).wait()
        torch.cuda.synchronize()
    dist.destroy_process_group(group)  # waits for the hook; nccl2 has none, and its works are asked then
    rows = recording.rows
    nccls, ours = (
        {row.seq: elapsed_ms(row) for row in rows if row.operation == operation}
        for operation in ("BACKEND", "IALLGATHER")
    )
    assert set(nccls) == set(ours) == set(range(11))
    del nccls[0], ours[0]  # the first one makes the communicator
    nccl_ms, our_ms = statistics.median(nccls.values()), statistics.median(ours.values())
    figure(f"{backend}, in the background, its rows BACKEND {nccl_ms:.3f} ms", f"{our_ms:.3f} ms")
    assert our_ms == pytest.approx(nccl_ms, rel=0.1, abs=BETWEEN_MS)
    assert {row.clock for row in rows} == {"device"}


@needs_nccl
def test_recording_makes_no_caller_wait_for_the_device(recording: Recording) -> None:
    tensor, done = torch.ones(1000, device="cuda"), torch.cuda.Event()
    spin(500)
    dist.all_reduce(tensor)
    dist.all_reduce(tensor, async_op=True).wait()
    done.record()
    assert not done.query()
    assert {row.status for row in recording.rows} == {"ok"}


@needs_nccl
def test_the_rows_of_a_ddp_model_are_by_the_device_and_every_bucket_is_waited_for(
    recording: Recording,
) -> None:
    layers = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4))).cuda()
    model = torch.nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=0.02)
    recording.forget()
    for _ in range(5):  # the first pass reduces all gradients in one bucket, and each later one in two
        model(torch.ones(8, 64, device="cuda")).sum().backward()
    torch.cuda.synchronize()
    rows = recording.rows
    buckets = [row for row in rows if row.operation == "IALLREDUCE"]
    waited_for = {row.seq for row in rows if row.operation == "WAIT"}
    assert {(row.clock, row.status) for row in rows} == {("device", "ok")}
    assert len(buckets) >= 8
    assert {row.seq for row in buckets} <= waited_for
    assert any(row.layer_name.startswith("ddp:") for row in buckets)
    assert {row.thread for row in rows} == {"MainThread"}  # which called backward; autograd's own wrote them
    assert {row.stream for row in buckets} == {""}
    assert all(row.stream.startswith("cuda:") for row in rows if row.operation == "WAIT")


# -- nothing changes -------------------------------------------------------------------------------------


class _Gathers(torch.autograd.Function):
    """A step whose backward pass gathers in the background, and computes on for 50 ms before it waits."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, gathered: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        ctx.gathered = gathered
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        _gather_beside_a_kernel(ctx.gathered)
        return gradient, None


def _gather_beside_a_kernel(gathered: tuple[torch.Tensor, torch.Tensor]) -> None:
    work = dist.all_gather_into_tensor(*gathered, async_op=True)
    spin(50)
    work.wait()


@needs_nccl
@pytest.mark.parametrize("in_backward_pass", [True, False])
def test_a_collective_ends_while_a_backward_pass_computes_on_and_elsewhere_with_its_wait(
    recording: Recording,
    gathered: tuple[torch.Tensor, torch.Tensor],
    figure: Figure,
    in_backward_pass: bool,
) -> None:
    with Known() as computing:
        if in_backward_pass:
            x = torch.ones(4, device="cuda", requires_grad=True)
            _Gathers.apply(x, gathered).sum().backward()  # type: ignore[no-untyped-call]
        else:
            _gather_beside_a_kernel(gathered)
    operation, wait = recording.rows
    figure(
        f"NCCL {'in a backward pass ' * in_backward_pass}beside a kernel of {computing.ms:.1f} ms",
        f"{elapsed_ms(operation):.3f} ms, and a WAIT of {elapsed_ms(wait):.3f} ms",
    )
    ends_early = in_backward_pass and not has_nccl2(dist.group.WORLD)  # whose futures nobody may ask for
    assert (elapsed_ms(operation) < computing.ms / 2) == ends_early
    assert elapsed_ms(operation) <= computing.ms + BETWEEN_MS
    assert elapsed_ms(wait) < computing.ms / 2


@needs_nccl
def test_computing_and_communicating_side_by_side_takes_as_long_as_untimed(
    recording: Recording, gathered: tuple[torch.Tensor, torch.Tensor], figure: Figure
) -> None:
    timed_ms, untimed_ms = [], []
    for _ in range(20):
        timed_ms.append(_overlapped_ms(dist.group.WORLD, *gathered))
        untimed_ms.append(_overlapped_ms(dist.group.WORLD.untimed, *gathered))
    timed, untimed = statistics.median(timed_ms), statistics.median(untimed_ms)
    figure(f"10 all-gathers beside kernels, untimed {untimed:.2f} ms", f"timed {timed:.2f} ms")
    assert timed <= untimed * 1.1 + BETWEEN_MS


def _overlapped_ms(group: Any, result: torch.Tensor, given: torch.Tensor) -> float:
    torch.cuda.synchronize()
    spin(5)  # so that the device is not ahead of the host
    with Known() as known:
        for _ in range(10):
            work = group._allgather_base(result, given)
            spin(1)
            work.wait()
    return known.ms


@needs_nccl
def test_memory_given_back_while_the_device_is_behind_is_used_again(
    recording: Recording, figure: Figure
) -> None:
    timed, untimed = (_reserved_mib(group) for group in (dist.group.WORLD, dist.group.WORLD.untimed))
    figure(f"reserved for 20 tensors of 32 MiB, one at a time, untimed {untimed} MiB", f"timed {timed} MiB")
    assert timed <= untimed


def _reserved_mib(group: Any) -> int:
    """What 20 tensors need that are reduced in the background and dropped, one after the other."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    spin(500)
    for _ in range(20):
        tensor = torch.empty(32 << 20, dtype=torch.uint8, device="cuda")
        work = group.allreduce([tensor])
        work.wait()
        del tensor, work
    reserved = torch.cuda.memory_reserved() - before
    torch.cuda.synchronize()
    return reserved >> 20


@needs_nccl
@pytest.mark.parametrize("in_background", [False, True])
def test_a_collective_in_a_graph_is_captured_unrecorded_and_replays(
    recording: Recording, in_background: bool
) -> None:
    tensor = torch.zeros(1000, device="cuda")
    _reduce_in_a_side_stream(tensor)
    captured_before = _captured(recording)
    dist.all_reduce(tensor)
    (before,) = recording.rows
    recording.forget()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        tensor.add_(1)
        work = dist.all_reduce(tensor, async_op=in_background)
        if work is not None:
            work.wait()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert tensor.unique().tolist() == [3.0]
    assert recording.rows == []
    assert _captured(recording) > captured_before
    dist.all_reduce(tensor)
    (after,) = recording.rows
    assert (before.seq, after.seq) == (before.seq, (before.seq or 0) + 2)


def _reduce_in_a_side_stream(tensor: torch.Tensor) -> None:
    """What torch asks to be done before a capture."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        dist.all_reduce(tensor)
        dist.all_reduce(tensor, async_op=True).wait()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()


def _captured(recording: Recording) -> int:
    recording.forget()
    return recording.clock.captured
