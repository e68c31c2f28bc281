"""Lists the methods of mpi4py's communicators that communicate, and what this rank sends in them.

Everything else about a method follows from its name and signature: a prefix ``I`` means nonblocking, a
suffix ``_init`` persistent, and lower case Python objects; the parameters ``dest``, ``source`` and
``root`` name the other rank.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, SupportsIndex, TypeAlias

from mpi4py import MPI

from allreduce_instrumentation.mpi._buffer_size import block_bytes, is_in_place, spec_bytes
from allreduce_instrumentation.mpi._comm_identity import CommIdentity

Arguments: TypeAlias = tuple[Any, ...]
"""The values of a call, one per parameter of the method, without ``self``."""

Size: TypeAlias = Callable[[Arguments, CommIdentity], "int | None"]
"""A function from a call's arguments to the bytes that this rank sends; None if they are unknown."""


def _the_buffer(given: Arguments, comm: CommIdentity) -> int | None:
    return spec_bytes(given[0])


def _sent(given: Arguments, comm: CommIdentity) -> int | None:
    """Return the bytes of the send buffer; for an in-place call, of the receive buffer."""
    sendbuf, recvbuf = given[:2]
    return spec_bytes(recvbuf if is_in_place(sendbuf) else sendbuf)


def _sent_block(given: Arguments, comm: CommIdentity) -> int | None:
    """Return the bytes of the send buffer; in place, those of this rank's block of the receive buffer."""
    sendbuf, recvbuf = given[:2]
    return block_bytes(recvbuf, comm.blocks, comm.rank) if is_in_place(sendbuf) else spec_bytes(sendbuf)


def _scattered(given: Arguments, comm: CommIdentity) -> int | None:
    """Return the bytes of the root's send buffer; on other ranks, their own block times the group's size."""
    sendbuf, recvbuf, root = given[:3]
    if _is_here(root, comm) and sendbuf is not None:
        return spec_bytes(sendbuf)
    block = spec_bytes(recvbuf)
    return None if block is None else block * comm.own_size


def _scattered_unevenly(given: Arguments, comm: CommIdentity) -> int | None:
    """Return the bytes of the root's send buffer; None on other ranks, which do not know it."""
    return spec_bytes(given[0]) if _is_here(given[2], comm) else None


def _is_here(root: SupportsIndex, comm: CommIdentity) -> bool:
    """Tell whether this rank is the root."""
    # Never raises: that would hide mpi4py's own error for a root that is no rank.
    try:
        return operator.index(root) in (comm.rank, MPI.ROOT)
    except TypeError:
        return False


SEND_FIRST_BUFFER: tuple[Size | None, ...] = (_the_buffer, _sent, _sent_block)
"""The functions that return the bytes of the first buffer, if the call is not in place."""

COLLECTIVES: dict[str, Size | None] = {
    "Allgather": _sent_block,
    "Allgatherv": _sent_block,
    "Allreduce": _sent,
    "Alltoall": _sent,
    "Alltoallv": _sent,
    "Alltoallw": _sent,
    "Barrier": None,
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
"""The collective methods, which all ranks of a communicator or neighbourhood call in the same order.

Each with what tells its bytes; None if it sends none.
"""

MESSAGES = (
    "Send", "Bsend", "Rsend", "Ssend", "Recv", "Sendrecv", "Sendrecv_replace", "Psend", "Precv",
)  # fmt: skip
"""The methods that send or receive between two ranks; the size is that of the first buffer."""

SENDS_OF_OBJECTS = ("send", "bsend", "ssend", "isend", "ibsend", "issend")
"""The methods that send a pickled Python object."""

PROBES = ("Probe", "Iprobe", "Mprobe", "Improbe")
"""The methods that wait or ask for a message without receiving it."""

MAKE_COMMUNICATORS = (
    "Clone", "Dup", "Dup_with_info", "Create", "Create_group", "Create_cart", "Create_graph",
    "Create_dist_graph", "Create_dist_graph_adjacent", "Create_intercomm", "Merge", "Shrink", "Split",
    "Split_type", "Sub", "Accept", "Connect", "Spawn", "Spawn_multiple",
)  # fmt: skip

"""The methods that return a new communicator."""

BEGIN_COMMUNICATORS = ("Idup", "Idup_with_info", "Ishrink")
"""The methods that return a communicator that cannot be used yet, and the request to wait for."""


def nonblocking(name: str) -> str:
    """Return the name of the nonblocking method: ``"Iallreduce"`` for ``"Allreduce"``."""
    return ("I" if name[0].isupper() else "i") + name.lower()


def persistent(name: str) -> str:
    """Return the name of the persistent method: ``"Allreduce_init"`` for ``"Allreduce"``."""
    return name + "_init"
