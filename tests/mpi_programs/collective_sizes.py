"""Three ranks: what each collective says that this rank sends, beside what MPI was asked to send."""

from __future__ import annotations

from typing import Any

import numpy as np
from _ranks import recording, report
from mpi4py import MPI

from allreduce_instrumentation import TimedIntracomm

WORLD = MPI.COMM_WORLD
rank, size = WORLD.rank, WORLD.size
assert size == 3

INT = MPI.INT
counts = [1, 2, 3]  # of the ranks' own blocks, in ints of 4 bytes
mine = np.zeros(counts[rank], "i")
everyone = np.zeros(sum(counts), "i")
block, blocks = np.zeros(2, "i"), np.zeros(2 * size, "i")
root = rank == 1
to_all = [counts[rank]] * size  # Alltoallv: rank r sends counts[r] to each
from_all = np.zeros(sum(counts), "i")
sent_to_all = np.zeros(size * counts[rank], "i")
bytes_of = [MPI.BYTE] * size

CALLS: dict[str, tuple[Any, int | None]] = {
    "Allgather": (lambda c: c.Allgather(block, blocks), 8),
    "Allgather in place": (lambda c: c.Allgather(MPI.IN_PLACE, blocks), 8),
    "Allgather in place, with a count": (lambda c: c.Allgather(MPI.IN_PLACE, [blocks, 2, INT]), 8),
    "Allgatherv": (lambda c: c.Allgatherv(mine, [everyone, counts]), 4 * counts[rank]),
    "Allgatherv in place": (lambda c: c.Allgatherv(MPI.IN_PLACE, [everyone, counts, INT]), 4 * counts[rank]),
    "Allgatherv in place, with displacements": (
        lambda c: c.Allgatherv(MPI.IN_PLACE, [everyone, (counts, [0, 1, 3]), INT]),
        4 * counts[rank],
    ),
    "Allreduce": (lambda c: c.Allreduce(block, block.copy()), 8),
    "Alltoall": (lambda c: c.Alltoall(blocks, blocks.copy()), 24),
    "Alltoall in place": (lambda c: c.Alltoall(MPI.IN_PLACE, blocks), 24),
    "Alltoallv": (lambda c: c.Alltoallv([sent_to_all, to_all], [from_all, counts]), 12 * counts[rank]),
    "Alltoallw": (
        lambda c: c.Alltoallw(
            [blocks, ([8] * size, [0, 8, 16]), bytes_of],
            [blocks.copy(), ([8] * size, [0, 8, 16]), bytes_of],
        ),
        24,
    ),
    "Barrier": (lambda c: c.Barrier(), None),
    "Bcast": (lambda c: c.Bcast(block, root=1), 8),
    "Exscan": (lambda c: c.Exscan(block, block.copy()), 8),
    "Gather": (lambda c: c.Gather(block, blocks if root else None, root=1), 8),
    "Gather in place": (
        lambda c: c.Gather(MPI.IN_PLACE if root else block, blocks if root else None, root=1),
        8,
    ),
    "Gatherv": (lambda c: c.Gatherv(mine, [everyone, counts] if root else None, root=1), 4 * counts[rank]),
    "Reduce": (lambda c: c.Reduce(block, block.copy() if root else None, root=1), 8),
    "Reduce in place": (
        lambda c: c.Reduce(MPI.IN_PLACE if root else block, block.copy() if root else None, root=1),
        8,
    ),
    "Reduce_scatter": (lambda c: c.Reduce_scatter(everyone, mine.copy(), counts), 24),
    "Reduce_scatter in place": (lambda c: c.Reduce_scatter(MPI.IN_PLACE, everyone.copy(), counts), 24),
    "Reduce_scatter_block": (lambda c: c.Reduce_scatter_block(blocks, block.copy()), 24),
    "Scan": (lambda c: c.Scan(block, block.copy()), 8),
    "Scatter": (lambda c: c.Scatter(blocks if root else None, block.copy(), root=1), 24),
    "Scatter in place": (
        lambda c: c.Scatter(blocks if root else None, MPI.IN_PLACE if root else block.copy(), root=1),
        24,
    ),
    "Scatterv": (
        lambda c: c.Scatterv([everyone, counts] if root else None, mine.copy(), root=1),
        24 if root else None,
    ),
    "Iallgatherv": (lambda c: c.Iallgatherv(mine, [everyone, counts]).Wait(), 4 * counts[rank]),
    "Igather": (lambda c: c.Igather(block, blocks if root else None, root=1).Wait(), 8),
    "Ialltoallv": (
        lambda c: c.Ialltoallv([sent_to_all, to_all], [from_all, counts]).Wait(),
        12 * counts[rank],
    ),
    "gather": (lambda c: c.gather(block, root=1), None),
    "scatter": (lambda c: c.scatter([1, 2, 3] if root else None, root=1), None),
    "alltoall": (lambda c: c.alltoall([1, 2, 3]), None),
}

measured = {}
for name, (call, expected) in CALLS.items():
    with recording() as (logger, records):
        call(TimedIntracomm(WORLD.Dup(), timing_logger=logger))
    measured[name] = {
        "bytes": [r.message_size_bytes for r in records if r.operation != "WAIT"],
        "expected": [expected],
        "operations": [r.operation for r in records if r.operation != "WAIT"],
        "peers": [r.peer for r in records if r.operation != "WAIT"],
    }
report(measured)
