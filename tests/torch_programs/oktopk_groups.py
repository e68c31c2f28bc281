"""oktopk_sparse_allreduce over a process group of gloo: the bits of each result, to compare with MPI's."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import torch.distributed as dist
from _reductions import fingerprint
from oktopk_data import CALLS, PECULIAR, PERIODS, TIMES, USUAL

from allreduce_instrumentation.compressors import TopK
from allreduce_instrumentation.sparse import oktopk, oktopk_sparse_allreduce

torch.set_num_threads(1)
vars(oktopk).update(PERIODS)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()

bits: dict[str, Any] = {}
for name, data in (USUAL | PECULIAR).items():
    compressor = TopK(0.01)
    bits[name] = []
    for call in range(CALLS):
        tensor = data(call, rank, size) * TIMES
        mean = oktopk_sparse_allreduce(tensor, comm=dist.group.WORLD, compressor=compressor, name="layer")
        bits[name].append(fingerprint(mean))
everyones: list[Any] = [None] * size
dist.all_gather_object(everyones, {"same": bits, "mpi4py": "mpi4py" in sys.modules})
if rank == 0:
    print("\nRESULTS " + json.dumps(everyones), flush=True)
dist.destroy_process_group()
