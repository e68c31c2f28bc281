"""Classify operations by their names: the base operation, and how it behaves.

Operations may have any names. A name may begin with a base operation, and anything may follow it after an
underscore: ``ALLREDUCE_DENSE``, ``ALLGATHERV_TOPK``. Nothing follows the names of MPI's calls on
communicators, windows and files: ``COMM_SPLIT``, ``WIN_FENCE``, ``FILE_OPEN``. A leading ``I`` marks a
non-blocking operation, whose call does not wait for it: ``ISEND_INDEX``. Blanks around a name do not count:
it is read as it was recorded, or as another program wrote it, but no operation differs from another by blanks
alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.results.plain import ONE_SIDED, SET_UP
from timing_logger.schema.record import MESSAGES as MESSAGES
from timing_logger.schema.record import PAUSES as PAUSES
from timing_logger.schema.record import WAIT as WAIT

CONSTRUCTION = frozenset({
    "COMM_DUP", "COMM_DUP_WITH_INFO", "COMM_SPLIT", "COMM_SPLIT_TYPE", "COMM_CREATE", "COMM_CREATE_GROUP",
    "COMM_SHRINK", "CART_CREATE", "CART_SUB", "GRAPH_CREATE", "DIST_GRAPH_CREATE",
    "DIST_GRAPH_CREATE_ADJACENT", "INTERCOMM_CREATE", "INTERCOMM_MERGE",
    "WIN_CREATE", "WIN_ALLOCATE", "WIN_ALLOCATE_SHARED", "WIN_CREATE_DYNAMIC", "WIN_FREE",
    "FILE_OPEN", "FILE_CLOSE",
})  # fmt: skip
"""Calls of MPI that make or end communicators, windows and files, and need all ranks of a group."""

SYNCHRONISING = CONSTRUCTION | {
    "ALLREDUCE", "ALLGATHER", "ALLTOALL", "REDUCE_SCATTER", "BARRIER", "WIN_FENCE",
}  # fmt: skip
"""Operations that no rank leaves before every rank has arrived, so that early ranks wait in them."""


MAY_SYNCHRONISE = frozenset({
    *(
        f"FILE_{kind}{suffix}"
        for kind in ("READ_ALL", "READ_AT_ALL", "READ_ORDERED", "WRITE_ALL", "WRITE_AT_ALL", "WRITE_ORDERED")
        for suffix in ("", "_BEGIN", "_END")
    ),
    "FILE_SET_VIEW", "FILE_SET_SIZE", "FILE_SET_ATOMICITY", "FILE_PREALLOCATE", "FILE_SEEK_SHARED",
    "FILE_SYNC", "WIN_FENCE_NOPRECEDE", "COMM_SPAWN", "COMM_SPAWN_MULTIPLE", "COMM_ACCEPT", "COMM_CONNECT",
    "COMM_DISCONNECT",
})  # fmt: skip
"""Calls of MPI that all ranks of a group make, and from which some may return before others have arrived."""

_ONLY_AS_THEY_STAND = CONSTRUCTION | ONE_SIDED | MAY_SYNCHRONISE | {"WIN_FENCE"}
"""Names that begin no others: ``FILE_OPEN_CHECKPOINT`` may be anybody's own work."""

COMMUNICATION = SYNCHRONISING | ONE_SIDED | MAY_SYNCHRONISE | {
    "ALLGATHERV", "ALLTOALLV", "ALLTOALLW", "REDUCE_SCATTER_BLOCK",
    "BCAST", "REDUCE", "GATHER", "GATHERV", "SCATTER", "SCATTERV", "SCAN", "EXSCAN",
    "SEND", "SSEND", "BSEND", "RSEND", "RECV", "SENDRECV", "SENDRECV_REPLACE", "PSEND", "PRECV",
    "NEIGHBOR_ALLGATHER", "NEIGHBOR_ALLGATHERV", "NEIGHBOR_ALLTOALL", "NEIGHBOR_ALLTOALLV",
    "NEIGHBOR_ALLTOALLW",
    "PUT", "SIGNAL", "WAIT_SIGNAL",
}  # fmt: skip
"""Operations that move data between ranks, or keep ranks in step."""

ALL_TO_ALL = SYNCHRONISING | {"ALLGATHERV", "ALLTOALLV", "ALLTOALLW"}
"""Operations in which every rank needs something of every other that has bytes to give."""

FROM_ROOT = frozenset({"BCAST", "SCATTER", "SCATTERV"})
"""Operations in which the root has what the others get, so that ranks that arrive before it wait."""

TO_ROOT = frozenset({"REDUCE", "GATHER", "GATHERV"})
"""Operations in which the root gets what the others have, and waits for them if it arrives first."""

DATA = "DATA"
"""Getting the next batch of data."""

PROBES = frozenset({"PROBE", "MPROBE"})
"""Operations that wait or ask for a message, without receiving it."""

COPIES = frozenset({"H2D", "D2H", "D2D"})
"""Copies between the host and a device, or within a device."""


BACKEND = "BACKEND"
"""The operation of what the backend measured of a collective, which has its own row and would count twice."""

_OTHERS = {WAIT, BACKEND, "COMPRESS", "MERGE", "DECOMPRESS"} | COPIES | PROBES

# Other spellings of a base operation, and variants that behave like it.
_SAME_AS = {
    "ALL_REDUCE": "ALLREDUCE",
    "ALL_GATHER": "ALLGATHER",
    "ALL_TO_ALL": "ALLTOALL",
    "BROADCAST": "BCAST",
    "REDUCE_SCATTER_BLOCK": "REDUCE_SCATTER",
    "SENDRECV_REPLACE": "SENDRECV",
    "SSEND": "SEND",
    "BSEND": "SEND",
    "RSEND": "SEND",
    "PSEND": "SEND",
    "PRECV": "RECV",
}

NumberT = TypeVar("NumberT", float, "Floats")

_GATHERS = frozenset({"ALLGATHER", "ALLGATHERV", "GATHER", "GATHERV"})

BUS_FACTORS: dict[str, Callable[[float], float]] = {
    "ALLREDUCE": lambda n: 2 * (n - 1) / n,
    **dict.fromkeys(
        _GATHERS | {"REDUCE_SCATTER", "ALLTOALL", "ALLTOALLV", "ALLTOALLW", "SCATTER", "SCATTERV"},
        lambda n: (n - 1) / n,
    ),
    **dict.fromkeys({"BCAST", "REDUCE", "SEND", "RECV", "SENDRECV"} | COPIES, lambda n: 1.0),
}
"""The bus factor of each base operation, as a function of the number of ranks n.

It is the bytes that a rank's link must carry divided by all bytes that one operation handles (nccl-tests,
doc/PERFORMANCE.md)."""

_LONGEST_FIRST = sorted(
    (COMMUNICATION - _ONLY_AS_THEY_STAND) | _OTHERS | _SAME_AS.keys(), key=len, reverse=True
)


_EXCHANGES = frozenset({"ALLTOALL", "ALLTOALLV", "ALLTOALLW"})


@lru_cache(maxsize=4096)  # few names recur, but users may choose any
def base_operation(name: str) -> str:
    """Return the base operation of a name, or the name itself if it has none.

    Examples: ``"ALLREDUCE_DENSE"`` -> ``"ALLREDUCE"``, ``"ISEND_INDEX"`` -> ``"SEND"``.
    """
    plain = name.strip().upper()
    for candidate in (plain, plain.removeprefix("I")):
        if candidate in _ONLY_AS_THEY_STAND:
            return candidate
        for base in _LONGEST_FIRST:
            if candidate == base or candidate.startswith(base + "_"):
                return _SAME_AS.get(base, base)
    return name


def goes_on(name: str) -> bool:
    """Tell whether the operation is non-blocking, as ``"IALLREDUCE"`` and ``"ISEND_INDEX"``."""
    return name.strip().upper().startswith("I") and base_operation(name) != name


def is_communication(name: str) -> bool:
    """Tell whether the operation moves data between ranks or keeps them in step.

    ``WAIT`` and ``BACKEND`` do neither: the operation that they are about has a row of its own.
    """
    return base_operation(name) in COMMUNICATION


def is_wait(name: str) -> bool:
    """Tell whether the operation is ``WAIT``: a thread was blocked on the operation of another row."""
    return base_operation(name) == WAIT


def is_own_work(name: str) -> bool:
    """Tell whether the operation is the rank's own work: it neither communicates, copies nor waits."""
    base = base_operation(name)
    return base not in COMMUNICATION | COPIES | PROBES | SET_UP | {WAIT, BACKEND}


def needs_no_other_rank(name: str) -> bool:
    """Tell whether an operation needs no other rank, as ``FORWARD``, ``COMPRESS``, ``H2D`` or a free name."""
    return is_own_work(name) or base_operation(name) in COPIES


def is_copy(name: str) -> bool:
    """Tell whether an operation copies between the host and a device."""
    return base_operation(name) in COPIES


def exchanges(name: str) -> bool:
    """Tell whether an operation sends another piece to each rank of its group, such as tokens to experts."""
    return base_operation(name) in _EXCHANGES


def is_collective(name: str) -> bool:
    """Tell whether the operation is a collective, in which all ranks of a group take part."""
    base = base_operation(name)
    return base in COMMUNICATION and base not in MESSAGES | ONE_SIDED


def synchronises_all_ranks(name: str) -> bool:
    """Tell whether no rank leaves the operation before every rank of its group has arrived."""
    return base_operation(name) in SYNCHRONISING


def algorithm_bytes(base: str, message_size_bytes: NumberT, group_size: NumberT) -> NumberT:
    """Return S of nccl-tests: all bytes that one operation handles.

    Args:
        base: a base operation.
        message_size_bytes: the bytes in one rank's send buffer, a number or an array.
        group_size: the number of ranks in the group, a number or an array.
    """
    return message_size_bytes * group_size if base in _GATHERS else message_size_bytes


def bus_factor(base: str, group_size: float) -> float:
    """Return bus bandwidth divided by algorithm bandwidth of a base operation; NaN where nccl-tests has none.

    Args:
        base: a base operation.
        group_size: the number of ranks in the group.
    """
    return BUS_FACTORS[base](group_size) if base in BUS_FACTORS else float("nan")


def bus_bytes(name: str, message_size_bytes: float, group_size: int) -> float:
    """Return the bytes that a rank moves over the wire for one operation: S of nccl-tests times its factor.

    For operations with different counts on each rank (``ALLTOALLV``) all ranks are taken to have the counts
    of this one. NaN for operations that move nothing between ranks, for a receive, whose bytes are those of
    the send, and where an argument is unknown.

    Args:
        name: the name of an operation.
        message_size_bytes: the bytes in the rank's send buffer.
        group_size: the number of ranks in the group.
    """
    base = base_operation(name)
    counts = base in COMMUNICATION and base in BUS_FACTORS and base != "RECV"
    if not (counts and message_size_bytes >= 0 and group_size >= 1):
        return float("nan")
    return float(algorithm_bytes(base, message_size_bytes, group_size) * bus_factor(base, group_size))
