"""Computes the bytes of buffer arguments of mpi4py, which are interpreted as mpi4py does.

The public functions return None for an unknown size, and never raise: a size is a column of a log, and no
reason to stop a training run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from mpi4py import MPI

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
        itemsize = (
            buffer.itemsize
            if hasattr(buffer, "itemsize")
            else MPI.buffer.frombuffer(buffer, readonly=True).itemsize
        )
        return int(itemsize), int(itemsize)
    if isinstance(datatype, str):
        datatype = MPI.Datatype.fromcode(datatype)
    return datatype.Get_size(), datatype.Get_extent()[1]
