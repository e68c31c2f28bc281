"""Describes the methods of a communicator: what a call sends, and to whom, according to its arguments."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any, NamedTuple

Arguments = tuple[Any, ...]
Keywords = Mapping[str, Any]


class NcclMethod(NamedTuple):
    """One method that communicates.

    Attributes:
        operation: the operation's name in the rows.
        parameters: the names of the parameters that can be given by position, in their order.
        sends: the parameter whose bytes are the message's; empty if there are none.
        root: the parameter that names the root; empty if there is none.
        peer: the parameter that names the other rank of a message; empty if there is none.
        without_root: the operation's name if no root is given; empty if there must be one.
        collective: whether every rank takes part.
    """

    operation: str
    parameters: tuple[str, ...]
    sends: str = ""
    root: str = ""
    peer: str = ""
    without_root: str = ""
    collective: bool = True

    def given(self, name: str, args: Arguments, kwargs: Keywords) -> Any:
        """Return the argument for the parameter ``name``; None if there is none."""
        at = self.parameters.index(name) if name in self.parameters else len(args)
        return args[at] if at < len(args) else kwargs.get(name)

    def other_rank(self, args: Arguments, kwargs: Keywords) -> int | None:
        """Return the root, or the other rank of a message; None if there is neither."""
        named = self.root or self.peer
        return as_rank(self.given(named, args, kwargs)) if named else None

    def sent_bytes(self, args: Arguments, kwargs: Keywords, rank: int, size: int) -> int | None:
        """Return the bytes of the send buffer; None if they are unknown.

        Of a broadcast and a scatter only the root has one: other ranks state what the root's has.

        Args:
            args, kwargs: the arguments of the call.
            rank: this rank.
            size: the number of ranks.
        """
        if not self.sends:
            return 0
        if self.operation in ("BCAST", "SCATTER") and self.other_rank(args, kwargs) != rank:
            received = bytes_of(self.given("recvbuf", args, kwargs))
            return None if received is None else received * (size if self.operation == "SCATTER" else 1)
        return bytes_of(self.given(self.sends, args, kwargs))


def bytes_of(buffer: Any) -> int | None:
    """Return the bytes of a tensor, an array, or a ``cuda.core.Buffer``; None if unknown."""
    try:
        nbytes = getattr(buffer, "nbytes", None)
        if nbytes is not None:
            return int(nbytes)
        described = getattr(buffer, "__cuda_array_interface__", None)
        if described is not None:
            return int(math.prod(described["shape"])) * int(described["typestr"][2:])
        return operator.index(buffer.size)  # of a Buffer, in bytes
    except Exception:  # NCCL's own error comes from the call itself
        return None


def as_rank(value: Any) -> int | None:
    """Return ``value`` as a rank; None if it is none."""
    try:
        return operator.index(value)
    except TypeError:
        return None


_BOTH = ("sendbuf", "recvbuf")
_REDUCED = (*_BOTH, "op")

METHODS: dict[str, NcclMethod] = {
    "allreduce": NcclMethod("ALLREDUCE", _REDUCED, "sendbuf"),
    "broadcast": NcclMethod("BCAST", (*_BOTH, "root"), "sendbuf", root="root"),
    "reduce": NcclMethod("REDUCE", (*_REDUCED, "root"), "sendbuf", root="root", without_root="ALLREDUCE"),
    "allgather": NcclMethod("ALLGATHER", _BOTH, "sendbuf"),
    "gather": NcclMethod("GATHER", (*_BOTH, "root"), "sendbuf", root="root", without_root="ALLGATHER"),
    "scatter": NcclMethod("SCATTER", (*_BOTH, "root"), "sendbuf", root="root"),
    "reduce_scatter": NcclMethod("REDUCE_SCATTER", _REDUCED, "sendbuf"),
    "alltoall": NcclMethod("ALLTOALL", _BOTH, "sendbuf"),
    "send": NcclMethod("SEND", ("sendbuf", "peer"), "sendbuf", peer="peer", collective=False),
    "recv": NcclMethod("RECV", ("recvbuf", "peer"), "recvbuf", peer="peer", collective=False),
    "put_signal": NcclMethod("PUT", ("local_buffer", "peer"), "local_buffer", peer="peer", collective=False),
    "signal": NcclMethod("SIGNAL", ("peer",), peer="peer", collective=False),
    "wait_signal": NcclMethod("WAIT_SIGNAL", ("descs",), collective=False),
}
"""nccl4py's methods that communicate, by name; not every version has all of them."""
