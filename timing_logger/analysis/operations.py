"""What an operation is, from its name: its base operation, and how that one behaves.

Names of operations are open. A base operation comes first and anything may follow it after an
underscore: ``ALLREDUCE_DENSE``, ``ALLGATHERV_TOPK``; a leading ``I`` says that the call does not wait
for the operation: ``ISEND_INDEX``.
"""

from __future__ import annotations

SYNCHRONISING = frozenset({"ALLREDUCE", "ALLGATHER", "ALLTOALL", "REDUCE_SCATTER", "BARRIER"})
"""No rank leaves before every rank has arrived, so the early ones wait in it."""

COMMUNICATION = SYNCHRONISING | {
    "ALLGATHERV", "ALLTOALLV", "ALLTOALLW", "REDUCE_SCATTER_BLOCK",
    "BCAST", "REDUCE", "GATHER", "GATHERV", "SCATTER", "SCATTERV", "SCAN", "EXSCAN",
    "SEND", "SSEND", "BSEND", "RSEND", "RECV", "SENDRECV", "SENDRECV_REPLACE",
}  # fmt: skip
"""Moves data between ranks, or keeps them in step."""

WAIT = "WAIT"
"""The time that somebody was blocked on an operation which has a row of its own."""

_OTHERS = {WAIT, "H2D", "D2H", "D2D", "COMPRESS", "DECOMPRESS"}

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
}

_LONGEST_FIRST = sorted(COMMUNICATION | _OTHERS | _SAME_AS.keys(), key=len, reverse=True)


def base_operation(name: str) -> str:
    """``"ALLREDUCE_DENSE"`` -> ``"ALLREDUCE"``, ``"ISEND_INDEX"`` -> ``"SEND"``; else the name itself."""
    plain = name.upper()
    for candidate in (plain, plain.removeprefix("I")):
        for base in _LONGEST_FIRST:
            if candidate == base or candidate.startswith(base + "_"):
                return _SAME_AS.get(base, base)
    return name


def is_communication(name: str) -> bool:
    """Whether the operation moves data between ranks or keeps them in step; ``WAIT`` does neither."""
    return base_operation(name) in COMMUNICATION


def synchronises_all_ranks(name: str) -> bool:
    """Whether no rank leaves the operation before every rank of its group has arrived."""
    return base_operation(name) in SYNCHRONISING
