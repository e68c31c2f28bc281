"""The timing logger guide's integration points and both of its ways to record, as it writes them."""

from __future__ import annotations

import sys

import numpy as np
import torch
from mpi4py import MPI

import allreduce_instrumentation as dopt
from timing_logger import get_timing_logger, init_timing_logger, shutdown_timing_logger

comm = MPI.COMM_WORLD
rank = comm.rank
epochs, iters_per_epoch = 2, 3
tensor, result, op = np.ones(1000), np.empty(1000), MPI.SUM
message_size, layer_name = tensor.nbytes, "layer1"

timing_log_dir = sys.argv[1]
timing_logger = init_timing_logger(rank, timing_log_dir)

model = torch.nn.Linear(10, 1)
optimizer = dopt.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.01), model.named_parameters(), timing_logger=timing_logger
)
for epoch in range(epochs):
    for i in range(iters_per_epoch):
        optimizer.set_current_iteration(epoch * iters_per_epoch + i)
        optimizer.set_current_epoch(epoch)
        optimizer.zero_grad()
        model(torch.randn(8, 10)).square().mean().backward()
        optimizer.step()

timing_logger = get_timing_logger()
timing_logger.record_timing(
    operation="ALLREDUCE",
    elapsed_ms=5.234,
    layer_name="layer1",
    message_size=110280000,
    phase="dense",
    iteration=100,
    epoch=0,
)

iteration, epoch = 101, 0
with timing_logger.record_mpi_operation("ALLREDUCE", message_size, layer_name, "dense", iteration, epoch):
    comm.Allreduce(tensor, result, op)

with timing_logger.record_mpi_operation("ALLREDUCE", message_size, layer_name) as timer:
    pass
assert timer.elapsed_ms >= 0

optimizer.stop()
shutdown_timing_logger()
