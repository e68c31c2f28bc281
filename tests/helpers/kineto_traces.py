"""Traces as torch.profiler exports them of a training over NCCL, for tests: no device is needed.

Their events have the names, categories and arguments that Kineto writes (libkineto, output_json.cpp).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BASE_NS = 1_770_388_000_000_000_000
FIRST_US = 5_000_000.0
RANKS, STEPS = 4, 40
STEP_US = 60_000.0
COMPUTE_US, DATA_US, REDUCE_US = 20_000.0, 5_000.0, 4_000.0
LAUNCH_US = 30.0
N_ELEMENTS = 262_144


def x(name: str, cat: str, tid: int, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    """Return a complete event."""
    return {"ph": "X", "cat": cat, "name": name, "pid": 77, "tid": tid, "ts": ts, "dur": dur, "args": args}


def parameters(external: int, ts: float, seq: int | None, **further: Any) -> dict[str, Any]:
    """Return the event with the arguments of a collective."""
    stated = {
        "External id": external, "Collective name": "allreduce", "In msg nelems": N_ELEMENTS,
        "Out msg nelems": N_ELEMENTS, "Group size": RANKS, "dtype": "Float", "In split size": "[]",
        "Out split size": "[]", "Process Group Name": "0", "Process Group Description": "default_pg",
        "Process Group Ranks": "[0, 1, 2, 3]", **({} if seq is None else {"Seq": seq}), **further,
    }  # fmt: skip
    return x("record_param_comms", "cpu_op", 77, ts, LAUNCH_US, **stated)


def arrivals_us(step: int, slow_rank: int | None, slow_in: str) -> list[tuple[float, float, float]]:
    """Return for each rank when its data are there, when it has computed, and when all have."""
    began = FIRST_US + step * STEP_US
    data = [began + (5 * DATA_US if (r, slow_in) == (slow_rank, "data") else DATA_US) for r in range(RANKS)]
    done = [
        data[r]
        + COMPUTE_US * (1.7 if (r, slow_in) == (slow_rank, "kernels") else 1 + 0.01 * ((step + r) % 3))
        for r in range(RANKS)
    ]
    return [(data[r], done[r], max(done)) for r in range(RANKS)]


def events_of(rank: int, slow_rank: int | None, slow_in: str, *, seq: bool = True) -> list[dict[str, Any]]:
    """Return the events of a rank: data, a kernel that computes, a copy and an all-reduce in each step."""
    events: list[dict[str, Any]] = [
        {
            "ph": "M",
            "name": "thread_name",
            "pid": 77,
            "tid": 77,
            "ts": 0,
            "args": {"name": "thread 77 (python)"},
        }
    ]
    for step in range(STEPS):
        began = FIRST_US + step * STEP_US
        data, done, all_done = arrivals_us(step, slow_rank, slow_in)[rank]
        ids = [3 * step + i for i in (1, 2, 3)]
        by, on = {"device": 0, "stream": 7}, {"device": 0, "stream": 20}
        events += [
            x(f"ProfilerStep#{step}", "user_annotation", 77, began, STEP_US - 1),
            x("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "user_annotation", 77, began + 1,
              data - began - 1),
            x("aten::mm", "cpu_op", 77, data + 1, LAUNCH_US, **{"External id": ids[0]}),
            x("cudaLaunchKernel", "cuda_runtime", 77, data + 2, 10, correlation=ids[0]),
            x("sgemm_128x64", "kernel", 7, data + 40, done - data - 40, correlation=ids[0], **by),
            x("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", 7, data + 5, 20, correlation=ids[2], device=0,
              stream=7, bytes=4096),
            parameters(ids[1], data + 200, step if seq else None),
            x("cudaLaunchKernel", "cuda_runtime", 77, data + 210, 10, correlation=ids[1]),
            x("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "kernel", 20, done,
              all_done - done + REDUCE_US, **{"External id": ids[1]}, correlation=ids[1], **on),
        ]  # fmt: skip
    return events


def trace_of(rank: int, events: list[dict[str, Any]], **further: Any) -> dict[str, Any]:
    """Return a trace with these events."""
    groups = [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": RANKS, "ranks": list(range(RANKS))}]
    distributed = {"backend": "nccl", "rank": rank, "world_size": RANKS, "pg_config": groups}
    return {
        "schemaVersion": 1, "distributedInfo": distributed, "host_name": "node7",
        "baseTimeNanoseconds": BASE_NS, "traceEvents": events, **further,
    }  # fmt: skip


def write_traces(folder: Path, slow_rank: int | None, slow_in: str = "kernels", *, seq: bool = True) -> Path:
    """Write the traces of all ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(RANKS):
        trace = trace_of(rank, events_of(rank, slow_rank, slow_in, seq=seq))
        (folder / f"rank{rank}.json").write_text(json.dumps(trace))
    return folder
