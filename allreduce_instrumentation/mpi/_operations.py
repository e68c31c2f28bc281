"""The table: which methods of mpi4py's communicators communicate, and what this rank sends in them.

Everything else about a method is read off its name and its signature: an ``I`` in front or ``_init``
behind makes the nonblocking and the persistent kind, small letters the one for Python objects, and
the parameters ``dest``, ``source`` and ``root`` name the other rank.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

from mpi4py import MPI

from allreduce_instrumentation.mpi._buffer_size import block_bytes, is_in_place, spec_bytes
from allreduce_instrumentation.mpi._comm_identity import CommIdentity

Arguments: TypeAlias = tuple[Any, ...]
"""The values of a call, one per parameter of the method, without ``self``."""

Size: TypeAlias = Callable[[Arguments, CommIdentity], "int | None"]
"""From a call's arguments to the bytes that this rank sends; None where it cannot be told."""


def _nothing(given: Arguments, comm: CommIdentity) -> int | None:
    return None


def _the_buffer(given: Arguments, comm: CommIdentity) -> int | None:
    return spec_bytes(given[0])


def _sent(given: Arguments, comm: CommIdentity) -> int | None:
    """Of a send buffer as long as what stands in the receive buffer, where that is sent from."""
    sendbuf, recvbuf = given[:2]
    return spec_bytes(recvbuf if is_in_place(sendbuf) else sendbuf)


def _sent_block(given: Arguments, comm: CommIdentity) -> int | None:
    """Of a send buffer as long as this rank's block of the receive buffer, where that is sent from."""
    sendbuf, recvbuf = given[:2]
    return block_bytes(recvbuf, comm.blocks, comm.rank) if is_in_place(sendbuf) else spec_bytes(sendbuf)


def _scattered(given: Arguments, comm: CommIdentity) -> int | None:
    """The root's send buffer: on other ranks, their own block times the number of blocks."""
    sendbuf, recvbuf, root = given[:3]
    if _is_here(root, comm) and sendbuf is not None:
        return spec_bytes(sendbuf)
    block = spec_bytes(recvbuf)
    return None if block is None else block * comm.size


def _scattered_unevenly(given: Arguments, comm: CommIdentity) -> int | None:
    """The root's send buffer, which only the root knows."""
    return spec_bytes(given[0]) if _is_here(given[2], comm) else None


def _is_here(root: Any, comm: CommIdentity) -> bool:
    """Never raises: that would hide what mpi4py says of a root that is no rank."""
    try:
        return operator.index(root) in (comm.rank, MPI.ROOT)
    except TypeError:
        return False


COLLECTIVES: dict[str, Size] = {
    "Allgather": _sent_block,
    "Allgatherv": _sent_block,
    "Allreduce": _sent,
    "Alltoall": _sent,
    "Alltoallv": _sent,
    "Alltoallw": _sent,
    "Barrier": _nothing,
    "Bcast": _the_buffer,
    "Exscan": _sent,
    "Gather": _sent_block,
    "Gatherv": _sent_block,
    "Neighbor_allgather": _the_buffer,
    "Neighbor_allgatherv": _the_buffer,
    "Neighbor_alltoall": _the_buffer,
    "Neighbor_alltoallv": _the_buffer,
    "Neighbor_alltoallw": _the_buffer,
    "Reduce": _sent,
    "Reduce_scatter": _sent,
    "Reduce_scatter_block": _sent,
    "Scan": _sent,
    "Scatter": _scattered,
    "Scatterv": _scattered_unevenly,
}  # fmt: skip
"""All ranks of a communicator, or of a rank's neighbourhood, in the same order everywhere."""

MESSAGES = (
    "Send", "Bsend", "Rsend", "Ssend", "Recv", "Sendrecv", "Sendrecv_replace", "Psend", "Precv",
)  # fmt: skip
"""Between two ranks; the size is that of the first buffer."""

SENDS_OF_OBJECTS = ("send", "bsend", "ssend", "isend", "ibsend", "issend")

PROBES = ("Probe", "Iprobe", "Mprobe", "Improbe")
"""Wait or ask for a message, without receiving it."""

MAKE_COMMUNICATORS = (
    "Clone", "Dup", "Dup_with_info", "Create", "Create_group", "Create_cart", "Create_graph",
    "Create_dist_graph", "Create_dist_graph_adjacent", "Create_intercomm", "Merge", "Shrink", "Split",
    "Split_type", "Sub", "Accept", "Connect", "Spawn", "Spawn_multiple",
)  # fmt: skip

BEGIN_COMMUNICATORS = ("Idup", "Idup_with_info", "Ishrink")
"""Return a communicator, which cannot be used yet, and the request to wait for."""


def nonblocking(name: str) -> str:
    """``"Allreduce"`` -> ``"Iallreduce"``, ``"send"`` -> ``"isend"``."""
    return ("I" if name[0].isupper() else "i") + name.lower()


def persistent(name: str) -> str:
    """``"Allreduce"`` -> ``"Allreduce_init"``."""
    return name + "_init"
