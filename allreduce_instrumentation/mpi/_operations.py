"""Lists the methods of mpi4py's communicators that communicate, and what this rank sends in them.

Everything else about a method follows from its name and signature: a prefix ``I`` means nonblocking, a
suffix ``_init`` persistent, and lower case Python objects; the parameters ``dest``, ``source`` and
``root`` name the other rank.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

from mpi4py import MPI

from allreduce_instrumentation.mpi._comm_identity import CommIdentity

if TYPE_CHECKING:
    from mpi4py.typing import Buffer, BufSpec, BufSpecV, BufSpecW, Count, InPlace, TypeSpec

    BufferSpec: TypeAlias = BufSpec | BufSpecV | BufSpecW
    """What mpi4py takes for a buffer: the buffer itself, or a list or tuple around it."""

    Counts: TypeAlias = Count | Sequence[Count]
    """One number for all blocks, or one for each."""

    Types: TypeAlias = TypeSpec | list[MPI.Datatype] | tuple[MPI.Datatype, ...]
    """The datatype of all blocks, or that of each."""


def spec_bytes(spec: BufferSpec) -> int | None:
    """Return the bytes of a buffer specification; None if unknown.

    Args:
        spec: an array, tensor or bytes-like object, or a list or tuple around one, with a count
            or counts, displacements and a datatype as mpi4py takes them; also ``MPI.BOTTOM`` with
            a datatype.
    """
    n_bytes = plain_bytes(spec)
    if n_bytes is not None:
        return n_bytes
    try:
        if isinstance(spec, (list, tuple)):
            return _specified(*_unpacked(spec))
        return _buffer_bytes(spec)
    except Exception:
        return None


def plain_bytes(buffer: object) -> int | None:
    """Return the bytes of an array, a tensor or a memory view, which most calls are given; else None."""
    try:
        n_bytes = getattr(buffer, "nbytes", None)
    except Exception:
        return None
    return n_bytes if type(n_bytes) is int else None


def block_bytes(spec: BufferSpec, blocks: int, rank: int) -> int | None:
    """Return the bytes of one block of a buffer that holds one block for each rank; None if unknown.

    Args:
        spec: as in :func:`spec_bytes`. Counts are those of the blocks; a single count is that of each block.
        blocks: the number of blocks.
        rank: the index of the block.
    """
    try:
        if isinstance(spec, (list, tuple)):
            return _specified_block(*_unpacked(spec), blocks, rank)
        return _buffer_bytes(spec) // blocks
    except Exception:
        return None


def is_in_place(sendbuf: BufferSpec | InPlace) -> bool:
    """Tell whether a send buffer means that the data are in the receive buffer: None or ``MPI.IN_PLACE``."""
    return sendbuf is None or sendbuf is MPI.IN_PLACE


def _buffer_bytes(buffer: Any) -> int:
    try:
        nbytes: int = buffer.nbytes  # arrays, tensors, memory views
    except AttributeError:
        nbytes = MPI.buffer.frombuffer(buffer, readonly=True).nbytes  # also through DLPack
    return int(nbytes)


def _unpacked(spec: Sequence[Any]) -> tuple[Buffer, Counts | None, Counts | None, Types | None]:
    """Return ``(buffer, count or counts, displacement or displacements, datatype)``; None where absent."""
    buffer, *middle, last = spec
    if len(spec) == 2:
        if _is_datatype(last):
            return buffer, None, None, last
        return (buffer, *_counts_and_displacements(last), None)
    if len(middle) == 2:
        return buffer, middle[0], middle[1], last
    return (buffer, *_counts_and_displacements(middle[0]), last)


def _is_datatype(item: object) -> bool:
    """Tell whether ``item`` is a datatype, a datatype's code, or a sequence of one per block."""
    if isinstance(item, (list, tuple)) and item:
        item = item[0]
    return isinstance(item, (MPI.Datatype, str))


def _counts_and_displacements(
    counts: Counts | tuple[Counts, Counts],
) -> tuple[Counts, Counts | None]:
    """Split ``counts``: a tuple of two is counts and displacements; everything else is counts alone."""
    if isinstance(counts, tuple) and len(counts) == 2:
        return counts
    return counts, None


def _specified(buffer: Buffer, count: Any, displacement: Counts | None, datatype: Types | None) -> int:
    if isinstance(datatype, (list, tuple)):  # one for each block, as Alltoallw takes them
        counts = [1] * len(datatype) if count is None else count
        return sum(int(n) * item.Get_size() for n, item in zip(counts, datatype, strict=False))
    size, extent = _item_size_and_extent(buffer, datatype)
    if count is None:
        offset = displacement if isinstance(displacement, int) else 0
        room = _buffer_bytes(buffer) - offset * extent
        return room // extent * size
    return size * (sum(int(n) for n in count) if hasattr(count, "__iter__") else int(count))


def _specified_block(
    buffer: Buffer,
    counts: Any,
    displacements: Counts | None,
    datatype: Types | None,
    blocks: int,
    rank: int,
) -> int:
    if counts is None:
        return _specified(buffer, None, displacements, datatype) // blocks
    count = list(counts)[rank] if hasattr(counts, "__iter__") else counts
    return _specified(buffer, count, None, datatype)


def _item_size_and_extent(buffer: Any, datatype: TypeSpec | None) -> tuple[int, int]:
    """Return the bytes of data in one item, and the bytes from one item to the next."""
    if datatype is None:
        known = buffer if hasattr(buffer, "itemsize") else MPI.buffer.frombuffer(buffer, readonly=True)
        return int(known.itemsize), int(known.itemsize)
    if isinstance(datatype, str):
        datatype = MPI.Datatype.fromcode(datatype)
    return datatype.Get_size(), datatype.Get_extent()[1]


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
    **dict.fromkeys(("Allgather", "Allgatherv", "Gather", "Gatherv"), _sent_block),
    **dict.fromkeys(("Allreduce", "Reduce", "Reduce_scatter", "Reduce_scatter_block"), _sent),
    **dict.fromkeys(("Alltoall", "Alltoallv", "Alltoallw", "Exscan", "Scan"), _sent),
    "Barrier": None,
    "Bcast": _the_buffer,
    **dict.fromkeys(("Neighbor_allgather", "Neighbor_allgatherv"), _the_buffer),
    **dict.fromkeys(("Neighbor_alltoall", "Neighbor_alltoallv", "Neighbor_alltoallw"), _the_buffer),
    "Scatter": _scattered,
    "Scatterv": _scattered_unevenly,
}
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

MAKE_COMMUNICATORS = {
    "Accept": "COMM_ACCEPT",
    "Clone": "COMM_DUP",
    "Connect": "COMM_CONNECT",
    "Create": "COMM_CREATE",
    "Create_cart": "CART_CREATE",
    "Create_dist_graph": "DIST_GRAPH_CREATE",
    "Create_dist_graph_adjacent": "DIST_GRAPH_CREATE_ADJACENT",
    "Create_graph": "GRAPH_CREATE",
    "Dup": "COMM_DUP",
    "Dup_with_info": "COMM_DUP_WITH_INFO",
    "Merge": "INTERCOMM_MERGE",
    "Shrink": "COMM_SHRINK",
    "Spawn": "COMM_SPAWN",
    "Spawn_multiple": "COMM_SPAWN_MULTIPLE",
    "Split": "COMM_SPLIT",
    "Split_type": "COMM_SPLIT_TYPE",
    "Sub": "CART_SUB",
}
"""The methods that return a new communicator and that all ranks of this one call, and their operations."""

MAKE_COMMUNICATORS_OF_OTHERS = {"Create_group": "COMM_CREATE_GROUP", "Create_intercomm": "INTERCOMM_CREATE"}
"""The same, which not just the ranks of this one call, but those of the new one: their row is its first."""

BEGIN_COMMUNICATORS = {
    "Idup": "ICOMM_DUP",
    "Idup_with_info": "ICOMM_DUP_WITH_INFO",
    "Ishrink": "ICOMM_SHRINK",
}
"""The methods that return a communicator that cannot be used yet, and the request to wait for."""

END_COMMUNICATORS = {"Disconnect": "COMM_DISCONNECT"}
"""The methods that all ranks of a communicator call to be rid of it, once it is quiet."""

MAKE_WINDOWS = ("Allocate", "Allocate_shared", "Create", "Create_dynamic")
"""The methods of ``MPI.Win`` that return a new window of a communicator."""

ON_SOME_OF_A_WINDOW = (
    "Lock", "Unlock", "Lock_all", "Unlock_all", "Flush", "Flush_all", "Flush_local", "Flush_local_all",
    "Post", "Start", "Complete", "Wait",
)  # fmt: skip
"""The methods of a window in which a rank may wait for others, but not all take part."""

UNTIMED_OF_WINDOWS = ("Rput", "Rget", "Raccumulate", "Rget_accumulate", "Test")
"""The methods of a window whose waits make no rows; how often they are called is counted."""


def _second_buffer(given: Arguments, comm: CommIdentity) -> int | None:
    return spec_bytes(given[1])


COLLECTIVES_OF_FILES: dict[str, Size | None] = {
    **dict.fromkeys(("Preallocate", "Seek_shared", "Set_atomicity", "Set_size", "Set_view", "Sync"), None),
    **dict.fromkeys(("Read_all_begin", "Read_at_all_begin", "Read_ordered_begin"), None),
    **dict.fromkeys(("Write_all", "Write_all_begin", "Write_ordered", "Write_ordered_begin"), _the_buffer),
    **dict.fromkeys(("Write_at_all", "Write_at_all_begin"), _second_buffer),
    **dict.fromkeys(("Write_all_end", "Write_at_all_end", "Write_ordered_end"), None),
}
"""The methods of a file that all ranks call which opened it, each with what tells the bytes it writes."""

READS_OF_FILES = (
    "Read_all", "Read_all_end", "Read_at_all", "Read_at_all_end", "Read_ordered", "Read_ordered_end",
)  # fmt: skip
"""The same, which read: the status tells how much there was."""

UNTIMED_OF_FILES = ("Iread_all", "Iread_at_all", "Iwrite_all", "Iwrite_at_all")
"""The methods of a file whose waits make no rows; how often they are called is counted."""


def nonblocking(name: str) -> str:
    """Return the name of the nonblocking method: ``"Iallreduce"`` for ``"Allreduce"``."""
    return ("I" if name[0].isupper() else "i") + name.lower()


def persistent(name: str) -> str:
    """Return the name of the persistent method: ``"Allreduce_init"`` for ``"Allreduce"``."""
    return name + "_init"
