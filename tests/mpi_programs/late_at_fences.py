"""Puts between fences, and then reduces. The last rank works for 30 ms in each step, the others for 2 ms."""

from __future__ import annotations

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(80, 8, comm=comm)
data, total = np.ones(10), np.empty(1)
for _ in range(40):
    time.sleep(0.03 if comm.rank == comm.size - 1 else 0.002)
    window.Fence()
    window.Put(data, (comm.rank + 1) % comm.size)
    window.Fence()
    comm.Allreduce(np.ones(1), total)
window.Free()
