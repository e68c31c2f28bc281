"""One rank, with an MPI that was told that only one thread uses it."""

from __future__ import annotations

import mpi4py

mpi4py.rc.thread_level = "funneled"

from _ranks import report  # noqa: E402
from _training import WORLD, error_of, mlp  # noqa: E402
from torch.optim import SGD  # noqa: E402

from allreduce_instrumentation import DistributedOptimizer  # noqa: E402

report(error_of(lambda: DistributedOptimizer(SGD(mlp(0).parameters(), lr=0.1), None, WORLD)))
