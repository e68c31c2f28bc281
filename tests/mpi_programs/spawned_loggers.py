"""Two ranks spawn two others. Each makes a logger, without what ``HIDDEN`` names in its environment."""

import os
import sys

from mpi4py import MPI

from timing_logger import TimingLogger

folder, spawned = sys.argv[1], len(sys.argv) > 2
for name in os.environ["HIDDEN"].split(","):
    os.environ.pop(name, None)
world = MPI.COMM_WORLD
with TimingLogger(world.rank, folder, world_size=world.size, labels={"spawned": spawned}) as logger:
    logger.record_timing("A", 1.0)
    if spawned:
        other = MPI.Comm.Get_parent()
    else:
        other = world.Spawn(sys.executable, ["-m", "mpi4py", __file__, folder, "spawned"], 2)
    other.barrier()
    other.Disconnect()
