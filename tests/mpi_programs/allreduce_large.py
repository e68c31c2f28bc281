"""Any number of ranks: a tensor with more entries than float32 can count, of which almost none travel."""

from __future__ import annotations

from typing import Any

import torch
from _ranks import report
from _reductions import SPARSE
from mpi4py import MPI

from allreduce_instrumentation.compressors import TopK

torch.set_num_threads(1)

WORLD = MPI.COMM_WORLD
rank, size = WORLD.rank, WORLD.size
LENGTH = 2**24 + 100
COMMON = (2**24 + 1, 2**24 + 3, 2**24 + 99)  # odd: float32 would make even numbers of them

tensor = torch.zeros(LENGTH)
tensor[2**24 + 5 + 2 * rank] = 1.0  # every rank's own, and the smallest: not among the largest three
for place, index in enumerate(COMMON):
    tensor[index] = 10.0 + place
results: dict[str, Any] = {}
for name, reduce in SPARSE.items():
    compressor = TopK(3 / LENGTH)
    mean = reduce(tensor, comm=WORLD, compressor=compressor, name="w")
    residual = compressor.residual("w")
    assert residual is not None
    found = mean.nonzero().squeeze(1)
    left = residual.nonzero().squeeze(1)
    results[name] = [found.tolist(), mean[found].tolist(), left.tolist()]
report(results)
