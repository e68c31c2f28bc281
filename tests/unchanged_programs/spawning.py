"""Two ranks spawn three others in the middle of their work; both worlds reduce."""

import sys

from mpi4py import MPI

parent = MPI.Comm.Get_parent()
if parent != MPI.COMM_NULL:
    for _ in range(2):
        MPI.COMM_WORLD.allreduce(1)
    parent.Disconnect()
else:
    for _ in range(20):
        MPI.COMM_WORLD.allreduce(1)
    children = MPI.COMM_WORLD.Spawn(sys.executable, ["-m", "mpi4py", __file__], 3)
    for _ in range(20):
        MPI.COMM_WORLD.allreduce(1)
    children.Disconnect()
