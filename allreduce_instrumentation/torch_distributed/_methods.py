"""Describes the methods of ``torch.distributed.ProcessGroup``: what a call sends, according to its arguments.

Old and new method names are both here: a torch that has ``all_gather_single`` keeps ``_allgather_base``
as its old name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor

from allreduce_instrumentation._operation_counts import as_rank

Arguments = tuple[Any, ...]
Keywords = Mapping[str, Any]

Sent: TypeAlias = "Tensor | list[Tensor] | list[list[Tensor]]"
"""What a call sends: a tensor, a list of tensors, or a list of lists."""

Untimed: TypeAlias = "Callable[..., dist.Work | None]"
"""A method of torch's class; it returns no work if the operation is complete, or is left to the stream."""

_NOTHING = object()
_OPTIONS = "opts"


class GroupMethod(NamedTuple):
    """One method of a process group that communicates.

    Attributes:
        operation: the operation's name in the rows, for a call that waits.
        sent: index of the argument that holds what is sent; None if nothing is sent.
        sent_names: the names that this argument may have.
        options: index of the options; a call without options goes on in the background.
        root: index of the root, in the form of the call that has no options; None if there is no root.
        collective: whether every rank of the group takes part.
        peer: index of the other rank of a message; None if the call does not name one.
        splits: index of the sizes of the pieces that are sent; no sizes means equal pieces.
    """

    operation: str
    sent: int | None = None
    sent_names: tuple[str, ...] = ()
    options: int | None = None
    root: int | None = None
    collective: bool = True
    peer: int | None = None
    splits: int | None = None

    def given(self, args: Arguments, kwargs: Keywords) -> tuple[Sent | None, Tensor | None, object]:
        """Return the buffer that is sent, its first tensor, and the argument in the place of the options.

        The buffer is a tensor, a list of tensors, or a list of lists. Each of the three is None if it is
        not given.
        """
        sent, options_at, count = self.sent, self.options, len(args)
        if sent is None:
            buffer = None
        elif sent < count:
            buffer = args[sent]
        else:
            buffer = next((kwargs[name] for name in self.sent_names if name in kwargs), None)
        options = args[options_at] if options_at is not None and options_at < count else kwargs.get(_OPTIONS)
        first = buffer[0] if type(buffer) is list and buffer else buffer  # a tensor, nearly always
        return buffer, first if isinstance(first, Tensor) else _first_tensor(first), options

    def operation_of(self, args: Arguments, kwargs: Keywords) -> str:
        """Return the row's operation, with a ``V`` at its end if it sends pieces of several sizes.

        A rank knows only what it sends itself. A rank whose own pieces are equal says ``ALLTOALL`` where
        others say ``ALLTOALLV``: with the same group and sequence number the two are one operation.
        """
        if self.splits is None:
            return self.operation
        given = args[self.splits] if len(args) > self.splits else kwargs.get("input_split_sizes")
        return self.operation + "V" if given and len(set(given)) > 1 else self.operation

    def sent_bytes(self, buffer: Sent | None, args: Arguments, group_size: int) -> int | None:
        """Return the bytes of the send buffer; for a scatter those of the root's, on every rank.

        None if they are unknown.
        """
        size = 0 if self.sent is None else bytes_of(buffer)
        if size == 0 and self.operation == "SCATTER" and args:
            received = bytes_of(args[0])
            return None if received is None else received * group_size
        return size

    def other_rank(self, options: object, args: Arguments, kwargs: Keywords) -> int | None:
        """Return the rank in the group of the root, or of the peer of a message.

        None if there is neither, or if the peer is not known yet. The root is in the options, or in the
        call itself.
        """
        if self.root is None:
            return None if self.collective else self.peer_of(args, kwargs)
        root = getattr(options, "rootRank", _NOTHING)
        if root is _NOTHING:
            root = kwargs.get("root", 0) if options is None else options
        return as_rank(root)

    def peer_of(self, args: Arguments, kwargs: Keywords) -> int | None:
        """Return the other rank of a message; None if it is not known yet."""
        if self.peer is None:
            return None
        named = kwargs.get("dstRank", kwargs.get("srcRank"))
        return as_rank(args[self.peer] if len(args) > self.peer else named)


def goes_on(options: object) -> bool:
    """Tell whether a call with ``options`` goes on in the background; without options it does."""
    return bool(getattr(options, "asyncOp", True))


def device_of(tensor: Tensor | None, options: object) -> torch.device | None:
    """Return the device that does the work, which is the tensor's; None if the arguments do not tell."""
    device = getattr(options, "device", None) if tensor is None else tensor.device
    return device if isinstance(device, torch.device) else None


def bytes_of(buffer: Any) -> int | None:
    """Return the bytes of a tensor or of nested lists of tensors; None if unknown (sparse layouts)."""
    try:
        if type(buffer) is list and len(buffer) == 1:  # nearly always
            buffer = buffer[0]
        return int(buffer.nbytes) if isinstance(buffer, Tensor) else sum(map(_size, buffer))
    except Exception:  # torch's own error comes from the call itself
        return None


def _first_tensor(buffer: object) -> Tensor | None:
    while isinstance(buffer, (list, tuple)) and buffer:
        buffer = buffer[0]
    return buffer if isinstance(buffer, Tensor) else None


def _size(buffer: Sent) -> int:
    return sum(map(_size, buffer)) if isinstance(buffer, (list, tuple)) else int(buffer.nbytes)


_IN_PLACE = (0, ("tensors", "tensor"))
_INPUT = ("input_tensors", "input_tensor", "input_list", "input", "inputTensors", "inputTensor")

METHODS: dict[str, GroupMethod] = {
    "allreduce": GroupMethod("ALLREDUCE", *_IN_PLACE, options=1),
    "allreduce_coalesced": GroupMethod("ALLREDUCE", *_IN_PLACE, options=1),
    "broadcast": GroupMethod("BCAST", *_IN_PLACE, options=1, root=1),
    "reduce": GroupMethod("REDUCE", *_IN_PLACE, options=1, root=1),
    **dict.fromkeys(
        (
            "allgather", "all_gather_single", "_allgather_base", "allgather_coalesced",
            "all_gather_single_coalesced", "allgather_into_tensor_coalesced",
        ),
        GroupMethod("ALLGATHER", 1, _INPUT, options=2),
    ),
    **dict.fromkeys(
        ("gather", "gather_single", "gather_into_tensor"),
        GroupMethod("GATHER", 1, _INPUT, options=2, root=2),
    ),
    "scatter": GroupMethod("SCATTER", 1, _INPUT, options=2, root=2),
    **dict.fromkeys(
        (
            "reduce_scatter", "reduce_scatter_single", "_reduce_scatter_base",
            "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced",
        ),
        GroupMethod("REDUCE_SCATTER", 1, _INPUT, options=2),
    ),
    "alltoall": GroupMethod("ALLTOALL", 1, _INPUT, options=2),
    **dict.fromkeys(
        ("all_to_all_single", "alltoall_base"), GroupMethod("ALLTOALL", 1, _INPUT, options=4, splits=3)
    ),
    "barrier": GroupMethod("BARRIER", options=0),
    "send": GroupMethod("SEND", *_IN_PLACE, collective=False, peer=1),
    "recv": GroupMethod("RECV", *_IN_PLACE, collective=False, peer=1),
    "recv_anysource": GroupMethod("RECV", *_IN_PLACE, collective=False),
}  # fmt: skip
"""The methods of a process group that return a ``Work``, by name; not every torch has all of them."""

_OPERATIONS = [name for method in METHODS.values() for name in (method.operation, method.operation + "V")]
IN_BACKGROUND = {operation: "I" + operation for operation in _OPERATIONS}
"""What an operation is called in the rows if it goes on in the background: one string, known by identity."""
