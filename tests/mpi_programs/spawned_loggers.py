"""Two ranks spawn two others. Each makes a logger, without what ``HIDDEN`` names in its environment.

Arguments: the folder of the logs, and what to start Python with.
"""

import os
import sys

from mpi4py import MPI

from timing_logger import TimingLogger

folder, python, spawned = *sys.argv[1:3], len(sys.argv) > 3
for name in os.environ["HIDDEN"].split(","):
    os.environ.pop(name, None)
world = MPI.COMM_WORLD
with TimingLogger(world.rank, folder, world_size=world.size, labels={"spawned": spawned}) as logger:
    logger.record_timing("A", 1.0)
    if spawned:
        other = MPI.Comm.Get_parent()
    else:
        other = world.Spawn(python, ["-m", "mpi4py", __file__, folder, python, "spawned"], 2)
    other.barrier()
    other.Disconnect()
