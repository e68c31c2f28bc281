"""Two ranks, the second of which is late in every other call: what the profiler says of rows, and clocks."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import torch
import torch.distributed as dist
from _flight import BothRecorders
from _names import all_gather_single
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

from allreduce_instrumentation import init_process_group

LATE_S = 0.03
ROUNDS = 5
SIZES = (1, 10_000, 1_000_000)  # floats

torch.set_num_threads(1)
recorders = BothRecorders(int(os.environ["RANK"]))
init_process_group("gloo", timing_logger=recorders.logger)
rank, size = dist.get_rank(), dist.get_world_size()


def calls(entries: int) -> dict[str, Callable[..., Any]]:
    """One of each kind whose span the profiler names after itself; gloo works on them from end to end."""
    whole, all_of_it = torch.ones(entries), torch.ones(entries * size)
    return {
        "all_reduce": lambda **how: dist.all_reduce(whole, **how),
        "all_gather": lambda **how: all_gather_single(all_of_it, whole, **how),
        "broadcast": lambda **how: dist.broadcast(whole, 1, **how),
        "all_to_all": lambda **how: dist.all_to_all_single(torch.empty_like(all_of_it), all_of_it, **how),
        "barrier": lambda **how: dist.barrier(**how),
    }


def one_round(entries: int) -> list[dict[str, Any]]:
    """Each kind of call, waited for at once and in the background; the instants around every step."""
    found = []
    for name, call in calls(entries).items():
        for in_background in (False, True):
            dist.barrier()  # so that only who sleeps is late
            if rank == 1:
                time.sleep(LATE_S)
            instants = [perf_counter_ns()]
            work = call(async_op=in_background)
            instants.append(perf_counter_ns())
            if in_background:
                if rank == 0:
                    time.sleep(2 * LATE_S)  # so that it ends long before somebody asks
                work.wait()
                instants.append(perf_counter_ns())
            found.append({"name": name, "instants": instants})
    return found


def unix_minus_counter_ns() -> int:
    """From the tightest of many pairs of readings."""
    readings = [(perf_counter_ns(), time.time_ns(), perf_counter_ns()) for _ in range(1000)]
    before, unix, after = min(readings, key=lambda reading: reading[2] - reading[0])
    return unix - (before + after) // 2


def profiled() -> dict[str, Any]:
    for entries in SIZES:
        one_round(entries)  # what is slow when it is done first
    recorders.next_part()
    offsets = [unix_minus_counter_ns()]
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        found = [made for _ in range(ROUNDS) for entries in SIZES for made in one_round(entries)]
    offsets.append(unix_minus_counter_ns())
    spans = [
        {"name": event.name().removeprefix("gloo:"), "start": event.start_ns(), "ns": event.duration_ns()}
        for event in profiler.profiler.kineto_results.events()
        if event.name().startswith("gloo:")
    ]
    spans.sort(key=lambda span: span["start"])
    return {"calls": found, "spans": spans, "offsets": offsets, "rows": recorders.next_part()["rows"]}


def trained() -> dict[str, Any]:
    """DDP, one rank of which is late with its gradients; the instants around each backward pass."""
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)), bucket_cap_mb=0.001)
    recorders.next_part()
    passes = []
    for _ in range(6):
        loss = model(torch.ones(4, 64)).square().mean()
        dist.barrier()
        if rank == 1:
            time.sleep(LATE_S)
        start_ns = perf_counter_ns()
        loss.backward()
        passes.append([start_ns, perf_counter_ns()])
    return {"passes": passes, "rows": recorders.next_part()["rows"]}


results = {"profiled": profiled(), "trained": trained()}
everyone: list[Any] = [None] * size
dist.all_gather_object(everyone, results)
if rank == 0:
    print("\nRESULTS " + json.dumps(everyone), flush=True)
dist.destroy_process_group()
