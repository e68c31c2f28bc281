"""How many bytes a buffer argument of mpi4py names, read as mpi4py reads it.

Every function returns None for what it cannot tell, and none ever raises: a size is a column of
a log, and no reason to stop a training run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

from mpi4py import MPI

_P = ParamSpec("_P")


def _none_if_unknown(function: Callable[_P, int]) -> Callable[_P, int | None]:
    @functools.wraps(function)
    def safe(*args: _P.args, **kwargs: _P.kwargs) -> int | None:
        try:
            return function(*args, **kwargs)
        except Exception:
            return None

    return safe


@_none_if_unknown
def spec_bytes(spec: Any) -> int:
    """Bytes named by a buffer specification.

    Args:
        spec: an array, tensor or bytes-like object, or a list or tuple around one, with a count
            or counts, displacements and a datatype as mpi4py takes them; also ``MPI.BOTTOM`` with
            a datatype.
    """
    return _whole(spec)


@_none_if_unknown
def sent_bytes(sendbuf: Any, recvbuf: Any) -> int:
    """Bytes of ``sendbuf``, or of ``recvbuf`` when that is sent from (``MPI.IN_PLACE``)."""
    return _whole(recvbuf if _in_place(sendbuf) else sendbuf)


@_none_if_unknown
def sent_block_bytes(sendbuf: Any, recvbuf: Any, blocks: int) -> int:
    """Bytes of ``sendbuf``, or of one of the ``blocks`` of ``recvbuf`` for ``MPI.IN_PLACE``."""
    if not _in_place(sendbuf):
        return _whole(sendbuf)
    return _whole(recvbuf) if _states_block(recvbuf) else _whole(recvbuf) // blocks


def _in_place(sendbuf: Any) -> bool:
    return sendbuf is None or sendbuf is MPI.IN_PLACE


def _states_block(spec: Any) -> bool:
    """Whether a count stands in ``spec``: mpi4py takes it as that of one block, not of all."""
    return isinstance(spec, (list, tuple)) and _unpacked(spec)[1] is not None


def _whole(spec: Any) -> int:
    if isinstance(spec, (list, tuple)):
        return _specified(*_unpacked(spec))
    return _buffer_bytes(spec)


def _buffer_bytes(buffer: Any) -> int:
    try:
        nbytes: int = buffer.nbytes  # arrays, tensors, memory views
    except AttributeError:
        nbytes = memoryview(buffer).nbytes
    return int(nbytes)


def _unpacked(spec: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
    """``(buffer, count or counts, displacement or displacements, datatype)``; None where absent."""
    buffer, *middle, last = spec
    if len(spec) == 2:
        if isinstance(last, (MPI.Datatype, str)):
            return buffer, None, None, last
        return (buffer, *_counts_and_displacements(last), None)
    if len(middle) == 2:
        return buffer, middle[0], middle[1], last
    return (buffer, *_counts_and_displacements(middle[0]), last)


def _counts_and_displacements(counts: Any) -> tuple[Any, Any]:
    """A pair is a count and a displacement (or a sequence of each); anything else is counts."""
    if isinstance(counts, (list, tuple)) and len(counts) == 2:
        return counts[0], counts[1]
    return counts, None


def _specified(buffer: Any, count: Any, displacement: Any, datatype: Any) -> int:
    size, extent = _item_size_and_extent(buffer, datatype)
    if count is None:
        room = _buffer_bytes(buffer) - (displacement or 0) * extent
        return room // extent * size
    return size * (sum(int(n) for n in count) if hasattr(count, "__iter__") else int(count))


def _item_size_and_extent(buffer: Any, datatype: Any) -> tuple[int, int]:
    """Bytes of data in one item, and bytes from one item to the next."""
    if datatype is None:
        itemsize = buffer.itemsize if hasattr(buffer, "itemsize") else memoryview(buffer).itemsize
        return int(itemsize), int(itemsize)
    if isinstance(datatype, str):
        datatype = MPI.Datatype.fromcode(datatype)
    return datatype.Get_size(), datatype.Get_extent()[1]
