"""MPI communicators whose operations time themselves: mpi4py's, method for method.

``TimedIntracomm(comm)`` is an ``MPI.Intracomm`` on the same handle, to be passed wherever ``comm``
was. Which methods communicate, and what they send, stands in ``_operations.py``.
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
