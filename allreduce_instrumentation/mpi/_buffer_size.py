"""How many bytes a buffer argument of mpi4py names, read as mpi4py reads it.

Every function returns None for what it cannot tell, and none ever raises: a size is a column of
a log, and no reason to stop a training run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpi4py import MPI


def spec_bytes(spec: Any) -> int | None:
    """Bytes named by a buffer specification.

    Args:
        spec: an array, tensor or bytes-like object, or a list or tuple around one, with a count
            or counts, displacements and a datatype as mpi4py takes them; also ``MPI.BOTTOM`` with
            a datatype.
    """
    try:
        if isinstance(spec, (list, tuple)):
            return _specified(*_unpacked(spec))
        return _buffer_bytes(spec)
    except Exception:
        return None


def block_bytes(spec: Any, blocks: int, rank: int) -> int | None:
    """Bytes of one block of a buffer that holds one for each rank.

    Args:
        spec: as in :func:`spec_bytes`. Counts are those of the blocks; a single one is that of each.
        blocks: how many there are.
        rank: which one.
    """
    try:
        if isinstance(spec, (list, tuple)):
            return _specified_block(*_unpacked(spec), blocks, rank)
        return _buffer_bytes(spec) // blocks
    except Exception:
        return None


def is_in_place(sendbuf: Any) -> bool:
    """Whether a send buffer stands for "what is in the receive buffer"."""
    return sendbuf is None or sendbuf is MPI.IN_PLACE


def _buffer_bytes(buffer: Any) -> int:
    try:
        nbytes: int = buffer.nbytes  # arrays, tensors, memory views
    except AttributeError:
        nbytes = MPI.buffer.frombuffer(buffer, readonly=True).nbytes  # also through DLPack
    return int(nbytes)


def _unpacked(spec: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
    """``(buffer, count or counts, displacement or displacements, datatype)``; None where absent."""
    buffer, *middle, last = spec
    if len(spec) == 2:
        if _is_datatype(last):
            return buffer, None, None, last
        return (buffer, *_counts_and_displacements(last), None)
    if len(middle) == 2:
        return buffer, middle[0], middle[1], last
    return (buffer, *_counts_and_displacements(middle[0]), last)


def _is_datatype(item: Any) -> bool:
    """A datatype, its code, or one datatype for each block."""
    if isinstance(item, (list, tuple)) and item:
        item = item[0]
    return isinstance(item, (MPI.Datatype, str))


def _counts_and_displacements(counts: Any) -> tuple[Any, Any]:
    """A pair, as a tuple, is a count and a displacement (or a sequence of each); all else is counts."""
    if isinstance(counts, tuple) and len(counts) == 2:
        return counts
    return counts, None


def _specified(buffer: Any, count: Any, displacement: Any, datatype: Any) -> int:
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
    buffer: Any, counts: Any, displacements: Any, datatype: Any, blocks: int, rank: int
) -> int:
    if counts is None:
        return _specified(buffer, None, displacements, datatype) // blocks
    if hasattr(counts, "__iter__"):
        return _specified(buffer, list(counts)[rank], None, datatype)
    return _specified(buffer, counts, None, datatype)


def _item_size_and_extent(buffer: Any, datatype: Any) -> tuple[int, int]:
    """Bytes of data in one item, and bytes from one item to the next."""
    if datatype is None:
        itemsize = (
            buffer.itemsize
            if hasattr(buffer, "itemsize")
            else MPI.buffer.frombuffer(buffer, readonly=True).itemsize
        )
        return int(itemsize), int(itemsize)
    if isinstance(datatype, str):
        datatype = MPI.Datatype.fromcode(datatype)
    return datatype.Get_size(), datatype.Get_extent()[1]
