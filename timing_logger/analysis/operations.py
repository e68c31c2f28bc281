"""What an operation is, from its name: its base operation, and how that one behaves.

Names of operations are open. A base operation comes first and anything may follow it after an
underscore: ``ALLREDUCE_DENSE``, ``ALLGATHERV_TOPK``; a leading ``I`` says that the call does not wait
for the operation: ``ISEND_INDEX``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from timing_logger.record import MESSAGES as MESSAGES
from timing_logger.record import WAIT as WAIT

SYNCHRONISING = frozenset({"ALLREDUCE", "ALLGATHER", "ALLTOALL", "REDUCE_SCATTER", "BARRIER"})
"""No rank leaves before every rank has arrived, so the early ones wait in it."""

COMMUNICATION = SYNCHRONISING | {
    "ALLGATHERV", "ALLTOALLV", "ALLTOALLW", "REDUCE_SCATTER_BLOCK",
    "BCAST", "REDUCE", "GATHER", "GATHERV", "SCATTER", "SCATTERV", "SCAN", "EXSCAN",
    "SEND", "SSEND", "BSEND", "RSEND", "RECV", "SENDRECV", "SENDRECV_REPLACE", "PSEND", "PRECV",
    "NEIGHBOR_ALLGATHER", "NEIGHBOR_ALLGATHERV", "NEIGHBOR_ALLTOALL", "NEIGHBOR_ALLTOALLV",
    "NEIGHBOR_ALLTOALLW",
}  # fmt: skip
"""Moves data between ranks, or keeps them in step."""

ALL_TO_ALL = SYNCHRONISING | {"ALLGATHERV", "ALLTOALLV", "ALLTOALLW"}
"""Everybody needs something of everybody, unless some have nothing to give."""

FROM_ROOT = frozenset({"BCAST", "SCATTER", "SCATTERV"})
"""One rank has what the others get, so those that arrive before it wait."""

TO_ROOT = frozenset({"REDUCE", "GATHER", "GATHERV"})
"""One rank gets what the others have, and waits for them if it arrives first."""

PROBES = frozenset({"PROBE", "MPROBE"})
"""Wait or ask for a message, without receiving it."""

COPIES = frozenset({"H2D", "D2H", "D2D"})
"""Between the host and a device, or within one."""

BACKEND = "BACKEND"
"""What the backend itself measured of a collective which has a row of its own: it would count twice."""

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

_GATHERS = frozenset({"ALLGATHER", "ALLGATHERV", "GATHER", "GATHERV"})

BUS_FACTORS: dict[str, Callable[[Any], Any]] = {
    "ALLREDUCE": lambda n: 2 * (n - 1) / n,
    **dict.fromkeys(
        _GATHERS | {"REDUCE_SCATTER", "ALLTOALL", "ALLTOALLV", "ALLTOALLW", "SCATTER", "SCATTERV"},
        lambda n: (n - 1) / n,
    ),
    **dict.fromkeys({"BCAST", "REDUCE", "SEND", "RECV", "SENDRECV"} | COPIES, lambda n: 1.0),
}
"""Of base operations, on n ranks: the bytes that a rank's link must carry as a part of all that one
operation handles (nccl-tests, doc/PERFORMANCE.md)."""

_LONGEST_FIRST = sorted(COMMUNICATION | _OTHERS | _SAME_AS.keys(), key=len, reverse=True)


@lru_cache(maxsize=4096)  # names are few, but anybody's
def base_operation(name: str) -> str:
    """``"ALLREDUCE_DENSE"`` -> ``"ALLREDUCE"``, ``"ISEND_INDEX"`` -> ``"SEND"``; else the name itself."""
    plain = name.upper()
    for candidate in (plain, plain.removeprefix("I")):
        for base in _LONGEST_FIRST:
            if candidate == base or candidate.startswith(base + "_"):
                return _SAME_AS.get(base, base)
    return name


def goes_on(name: str) -> bool:
    """Whether the call does not wait for the operation: ``"IALLREDUCE"``, ``"ISEND_INDEX"``."""
    return name.upper().startswith("I") and base_operation(name) != name


def is_communication(name: str) -> bool:
    """Whether the operation moves data between ranks or keeps them in step.

    ``WAIT`` and ``BACKEND`` do neither: what they are about has a row of its own.
    """
    return base_operation(name) in COMMUNICATION


def is_wait(name: str) -> bool:
    """Whether it is the time that somebody was blocked on another row's operation."""
    return base_operation(name) == WAIT


def is_own_work(name: str) -> bool:
    """Whether the rank works on its own account: it neither communicates, copies nor waits."""
    base = base_operation(name)
    return base not in COMMUNICATION | COPIES | PROBES | {WAIT, BACKEND}


def is_collective(name: str) -> bool:
    """Whether all ranks of a group take part in the operation."""
    base = base_operation(name)
    return base in COMMUNICATION and base not in MESSAGES


def synchronises_all_ranks(name: str) -> bool:
    """Whether no rank leaves the operation before every rank of its group has arrived."""
    return base_operation(name) in SYNCHRONISING


def algorithm_bytes(base: str, message_size_bytes: Any, group_size: Any) -> Any:
    """nccl-tests' S: all bytes that one operation handles, from those in one rank's send buffer.

    Args:
        base: a base operation.
        message_size_bytes, group_size: numbers or arrays.
    """
    return message_size_bytes * group_size if base in _GATHERS else message_size_bytes


def bus_factor(base: str, group_size: Any) -> Any:
    """Bus bandwidth divided by algorithm bandwidth of a base operation; NaN where nccl-tests has none."""
    return BUS_FACTORS[base](group_size) if base in BUS_FACTORS else float("nan")


def bus_bytes(name: str, message_size_bytes: float, group_size: int) -> float:
    """Bytes that a rank moves over the wire for one operation: nccl-tests' S times its factor.

    Of the operations with counts of their own on each rank (``ALLTOALLV``) these are the bytes as if
    all ranks had this one's. NaN for operations that move nothing between ranks, for a receive, whose
    bytes are those of the send, and where an argument is unknown.
    """
    base = base_operation(name)
    counts = base in COMMUNICATION and base in BUS_FACTORS and base != "RECV"
    if not (counts and message_size_bytes >= 0 and group_size >= 1):
        return float("nan")
    return float(algorithm_bytes(base, message_size_bytes, group_size) * bus_factor(base, group_size))
