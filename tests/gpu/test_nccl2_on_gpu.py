"""The backend that torch 2.15 makes for the name ``nccl``: what timing assumes of it, after it was read.

NCCL runs with one process here, where an all-gather is a copy on the device, which takes long enough to be
measured.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest
import torch
import torch.distributed as dist
from recordings import Figure, Recording, elapsed_ms
from spinning import Known, spin
from torch._C import _distributed_c10d as c10d_in_c

from allreduce_instrumentation.torch_distributed._operations import Nccl2Operation

BETWEEN_MS = 0.1  # what may lie between two events that are recorded one after the other

pytestmark = pytest.mark.skipif(
    not hasattr(dist, "ProcessGroupNCCL2") or os.environ.get("TORCH_DIST_USE_NCCL2") == "0",
    reason="the name nccl means nccl2 since torch 2.15, unless TORCH_DIST_USE_NCCL2=0",
)


@pytest.fixture
def recording(nccl: Recording) -> Recording:
    torch.cuda.synchronize()
    nccl.forget()
    return nccl


def _synchronous(group: Any, result: torch.Tensor, given: torch.Tensor) -> Any:
    options = c10d_in_c.AllgatherOptions()
    options.asyncOp = False
    return group._allgather_base(result, given, options)


def test_the_name_nccl_gives_nccl2_and_its_operations_are_timed_as_such(recording: Recording) -> None:
    world: Any = dist.group.WORLD
    backend = world._get_backend(torch.device("cuda"))
    assert (dist.get_backend(), backend.name(), type(backend).__name__) == (
        "nccl", "nccl2", "ProcessGroupNCCL2",
    )  # fmt: skip
    assert world.timing.on_device is Nccl2Operation
    assert world.bound_device_id == torch.device("cuda", torch.cuda.current_device())


def test_to_ask_for_a_future_makes_the_current_stream_wait_and_an_untaken_one_does_not(
    recording: Recording, gathered: tuple[torch.Tensor, torch.Tensor], figure: Figure
) -> None:
    untimed: Any = dist.group.WORLD.untimed
    with Known() as alone:
        _synchronous(untimed, *gathered)
    works = []
    with Known() as issued:
        works.append(untimed._allgather_base(*gathered))
    torch.cuda.synchronize()
    with Known() as asked:
        works.append(untimed._allgather_base(*gathered))
        works[-1].get_future()
    figure(f"nccl2, an all-gather of {alone.ms:.3f} ms, in the background", f"{issued.ms:.3f} ms")
    figure("nccl2, the same, and asked for its future", f"{asked.ms:.3f} ms")
    assert issued.ms < alone.ms / 2
    assert asked.ms == pytest.approx(alone.ms, rel=0.2, abs=BETWEEN_MS)


def test_a_future_that_is_taken_is_a_wait_as_long_as_the_operation(
    recording: Recording, gathered: tuple[torch.Tensor, torch.Tensor]
) -> None:
    spin(5)  # so that the device is not ahead of the host
    dist.all_gather_into_tensor(*gathered, async_op=True).get_future()
    operation, wait = recording.rows
    assert [operation.operation, wait.operation] == ["IALLGATHER", "WAIT"]
    assert elapsed_ms(wait) == pytest.approx(elapsed_ms(operation), rel=0.2, abs=BETWEEN_MS)


def test_a_synchronous_call_has_a_work_and_is_a_row_though_nobody_waits_for_it(
    recording: Recording, gathered: tuple[torch.Tensor, torch.Tensor]
) -> None:
    with Known() as known:
        work = _synchronous(dist.group.WORLD, *gathered)
    assert work is not None
    (row,) = recording.rows
    assert (row.operation, row.status) == ("ALLGATHER", "ok")
    assert elapsed_ms(row) == pytest.approx(known.ms, rel=0.1, abs=BETWEEN_MS)


def test_a_bucket_of_ddp_is_waited_for_as_long_as_it_lasts_inside_the_backward_pass(
    recording: Recording, figure: Figure
) -> None:
    layers = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096) for _ in range(4))).cuda()
    model = torch.nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=100)
    for _ in range(5):  # DDP makes its buckets anew after the first step
        recording.forget()
        model(torch.ones(8, 4096, device="cuda")).sum().backward()
        torch.cuda.synchronize()
    rows = recording.rows
    buckets, waits = (
        {row.seq: elapsed_ms(row) for row in rows if row.operation == name} for name in ("IALLREDUCE", "WAIT")
    )
    figure(f"DDP over nccl2, buckets {list(buckets.values())} ms", f"waited {list(waits.values())} ms")
    assert len(buckets) > 1
    assert len(waits) == len([row for row in rows if row.operation == "WAIT"])
    for number, lasted in buckets.items():
        assert waits[number] == pytest.approx(lasted, rel=0.2, abs=BETWEEN_MS)


def test_the_flight_recorder_sees_what_happens_in_a_timed_group_until_it_is_complete(
    recording: Recording,
) -> None:
    group = dist.new_group([0])
    for _ in range(3):
        dist.all_reduce(torch.ones(4, device="cuda"), group=group)
    torch.cuda.synchronize()
    entries: list[Any] = []
    for _ in range(50):  # the backend's own thread notices that they are complete
        trace = json.loads(c10d_in_c._dump_fr_trace_json(True, False, "nccl2"))
        entries = [one for one in trace["entries"] if one["process_group"][0] == group.group_name]
        if {one["state"] for one in entries} == {"completed"}:
            break
        time.sleep(0.1)
    dist.destroy_process_group(group)
    assert [one["state"] for one in entries] == ["completed"] * 3
