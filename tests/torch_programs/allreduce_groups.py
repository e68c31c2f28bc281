"""Any number of ranks under torchrun: the all-reducers over process groups of gloo.

Argument: the dtypes of what is tried with several, with commas.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
from _reductions import (
    SPARSE,
    WITHOUT_LOSS,
    Ranks,
    as_in_one_process,
    dtypes_of,
    names_do_not_mix,
    nothing_left_out,
    shapes_and_memory,
    what_becomes_of_the_gradient,
    whole_numbers,
)
from _refusals import different_calls, error_of, refused, too_large

from allreduce_instrumentation.compressors import NoCompression, TopK
from allreduce_instrumentation.sparse import dense_allreduce
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
WORLD: Any = dist.group.WORLD
RANKS = Ranks(WORLD, rank, size, dtypes_of(sys.argv[1]))


def columns(record: Record) -> list[Any]:
    return [
        record.operation, record.phase, record.message_size_bytes, record.seq, record.peer, record.status,
    ]  # fmt: skip


def rows() -> dict[str, Any]:
    """Of one call each in a group of its own, 25 float32 entries of which 5 are picked; recorded or not."""
    found: dict[str, Any] = {}
    for name, (reduce, compressor) in WITHOUT_LOSS.items():
        sink = MemorySink()
        group = dist.new_group(group_desc=f"group of {name}")
        with TimingLogger(rank, None, sinks=[sink], record_every_n_steps=2) as logger:
            for iteration in range(3):
                logger.set_current_iteration(iteration)
                made = compressor() if name.startswith("dense") else TopK(0.2)
                tensor = whole_numbers(rank, 0, 25, torch.float32)
                reduce(tensor, comm=group, compressor=made, name="w", timing_logger=logger)
        found[name] = [columns(r) for r in sink.records if r.iteration == 0]
        seqs = [r.seq for r in sink.records if r.operation == "ALLGATHER" and r.phase.endswith("agreement")]
        collectives = [r for r in sink.records if r.iteration == 0 and r.operation in COLLECTIVES]
        found[f"{name}, unrecorded calls count"] = seqs == [0, 2 * len(collectives)]
        grouped = [r for r in sink.records if r.group]
        found[f"{name}, group"] = sorted({(r.group.rsplit(" ", 1)[0], r.group_size) for r in grouped})
        found[f"{name}, layers"] = sorted({r.layer_name for r in sink.records})
    return found


COLLECTIVES = ("ALLREDUCE", "ALLGATHER", "ALLGATHERV", "ALLTOALL", "ALLTOALLV", "BCAST")


def unusable_groups() -> dict[str, Any]:
    destroyed = dist.new_group()
    dist.barrier()  # a rank that closes its connections would fail those that are still connecting
    dist.destroy_process_group(destroyed)
    without_me = dist.new_group([(rank + 1) % size]) if size == 1 else dist.new_group([0])
    groups: dict[str, Any] = {"destroyed": destroyed}
    if size > 1 and rank > 0:
        groups["without this rank"] = without_me
    return {name: error_of(lambda g=group: _dense(g)) for name, group in groups.items()}


def part_of_the_world() -> bool:
    """The mean over the ranks but the first, by every reducer: ranks in a group are the group's."""
    if size < 3:
        return True
    group = dist.new_group(list(range(1, size)))
    if rank == 0:
        return True
    mean = sum(range(1, size)) / (size - 1)
    results = [
        reduce(torch.full((3,), float(rank)), comm=group, compressor=TopK(1.0), name="w")
        for reduce in SPARSE.values()
    ]
    return all(result.tolist() == [mean] * 3 for result in results)


def _dense(group: Any) -> Any:
    return dense_allreduce(torch.ones(3), comm=group, compressor=NoCompression(), name="w")


CHECKS: dict[str, Callable[[], Any]] = {
    "nothing left out": lambda: nothing_left_out(RANKS),
    "as in one process": lambda: as_in_one_process(RANKS),
    "gradient": lambda: what_becomes_of_the_gradient(RANKS),
    "shapes and memory": lambda: shapes_and_memory(RANKS),
    "names": lambda: names_do_not_mix(RANKS),
    "refused": lambda: refused(RANKS),
    "too large": lambda: too_large(RANKS),
    "different calls": lambda: different_calls(RANKS),
    "rows": rows,
    "unusable groups": unusable_groups,
    "part": part_of_the_world,
}

results: dict[str, Any] = {}
seconds: dict[str, float] = {}
for name, check in CHECKS.items():
    start = perf_counter()
    results[name] = check()
    seconds[name] = round(perf_counter() - start, 2)
everyone: list[Any] = [None] * size
dist.all_gather_object(everyone, {**results, "seconds": seconds})
if rank == 0:
    print("\nRESULTS " + json.dumps(everyone), flush=True)
dist.destroy_process_group()
