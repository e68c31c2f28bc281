"""MPI communicators with the methods of mpi4py's, whose operations time themselves.

``TimedIntracomm(comm)`` is an ``MPI.Intracomm`` on the same handle, which can be passed wherever ``comm``
was. ``_operations.py`` lists the methods that communicate, and what they send.
"""

from allreduce_instrumentation.mpi.communicators import (
    TimedCartcomm,
    TimedDistgraphcomm,
    TimedGraphcomm,
    TimedIntercomm,
    TimedIntracomm,
    TimedTopocomm,
)

__all__ = [
    "TimedCartcomm",
    "TimedDistgraphcomm",
    "TimedGraphcomm",
    "TimedIntercomm",
    "TimedIntracomm",
    "TimedTopocomm",
]
