"""An all-reducer's transport over a process group of ``torch.distributed``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor

from allreduce_instrumentation.torch_distributed import _backends
from allreduce_instrumentation.torch_distributed._group_timing import GroupIdentity
from allreduce_instrumentation.torch_distributed.existing_groups import logger_timing
from timing_logger.recording.device.host_or_device import has_streams, timed_block
from timing_logger.recording.global_logger import get_timing_logger
from timing_logger.recording.logger import TimingLogger


class GroupTransport:
    """A :class:`~._transport.Transport` over a process group.

    Tensors are on the input's device if the group has a backend that works in streams there, such as nccl;
    else on the host, if the group has a backend for the host, such as gloo; else on the current device.
    Rows name the group by its description and number, such as ``default_pg 0``; ranks are those in the
    group.

    This class has been tried with gloo, but not with other backends.

    Args:
        group: the process group, timed or not.
        like: the tensor to be reduced.
        layer_name: the layer name of the rows.
        phase: the first word of the phase of the rows.
        timing_logger: where the rows go; the rows of the operations of a group that times itself go to
            that group's logger. Default: the group's logger, else ``get_timing_logger()``.

    Raises:
        ConfigurationError: ``group`` was destroyed.
    """

    def __init__(
        self,
        group: dist.ProcessGroup,
        like: object,
        layer_name: str,
        phase: str,
        timing_logger: TimingLogger | None,
    ) -> None:
        _backends.members_of(group)  # raises if there are none any more
        self._group = group
        self._layer_name = layer_name
        self._phase = phase
        self._identity = GroupIdentity.of(group)
        self._timed_by = logger_timing(group)
        self.logger = timing_logger or self._timed_by or get_timing_logger()
        self.rank = group.rank()
        self.size = group.size()
        self.control_device = _backends.control_device(group)
        self.device = _device_for(group, like, self.control_device)

    def allreduce(self, tensor: Tensor, what: str) -> Tensor:
        total = tensor.clone()
        with self._collective("ALLREDUCE", tensor, what):
            dist.all_reduce(total, group=self._group)
        return total

    def allgather(self, tensor: Tensor, what: str) -> Tensor:
        everyone = tensor.new_empty((self.size, tensor.numel()))
        with self._collective("ALLGATHER", tensor, what):
            dist.all_gather([_bytes(block) for block in everyone], _bytes(tensor), group=self._group)
        return everyone

    def allgatherv(self, tensor: Tensor, counts: Sequence[int], what: str) -> list[Tensor]:
        """Gather every rank's ``tensor``; rank ``r``'s has ``counts[r]`` entries.

        gloo has no such operation, so every rank sends as much as the largest: the row is an ``ALLGATHER``
        of that size.
        """
        padded = tensor.new_zeros(max(counts))
        padded[: tensor.numel()] = tensor
        if not padded.numel():
            return [padded] * self.size
        return [block[:count] for block, count in zip(self.allgather(padded, what), counts, strict=True)]

    def alltoall(self, tensor: Tensor, what: str) -> Tensor:
        received = torch.empty_like(tensor)
        with self._collective("ALLTOALL", tensor, what):
            dist.all_to_all_single(_bytes(received), _bytes(tensor), group=self._group)
        return received

    def alltoallv(
        self, tensor: Tensor, send_counts: Sequence[int], receive_counts: Sequence[int], what: str
    ) -> list[Tensor]:
        received = tensor.new_empty(sum(receive_counts))
        width = tensor.element_size()
        with self._collective("ALLTOALLV", tensor, what):
            dist.all_to_all_single(
                _bytes(received),
                _bytes(tensor),
                [count * width for count in receive_counts],
                [count * width for count in send_counts],
                group=self._group,
            )
        return list(torch.split(received, list(receive_counts)))

    def broadcast(self, tensor: Tensor, root: int, what: str) -> None:
        with self._collective("BCAST", tensor, what, peer=root):
            dist.broadcast(_bytes(tensor), group_src=root, group=self._group)

    def send(self, tensor: Tensor, to: int, what: str) -> None:
        with self._row("SEND", tensor, what, partial(self._identity.next_sent, to), to):
            dist.send(_bytes(tensor), group_dst=to, group=self._group)

    def recv(self, count: int, dtype: torch.dtype, source: int, what: str) -> Tensor:
        received = torch.empty(count, dtype=dtype, device=self.device)
        with self._row("RECV", received, what, partial(self._identity.next_received, source), source):
            dist.recv(_bytes(received), group_src=source, group=self._group)
        return received

    def _collective(
        self, operation: str, sent: Tensor, what: str, peer: int | None = None
    ) -> AbstractContextManager[object]:
        return self._row(operation, sent, what, self._identity.next_collective, peer)

    def _row(
        self, operation: str, buffer: Tensor, what: str, count: Callable[[], int], peer: int | None
    ) -> AbstractContextManager[object]:
        phase = f"{self._phase} {what}".rstrip()
        if self._timed_by is not None:  # the group makes the row and counts the operation itself
            return self._timed_by.label(self._layer_name, phase)
        return timed_block(
            self.logger, operation, buffer.device, message_size=buffer.nbytes,
            layer_name=self._layer_name, phase=phase,
            group=self._identity.name, group_size=self.size, seq=count(), peer=peer,
        )  # fmt: skip


def _device_for(group: dist.ProcessGroup, like: object, otherwise: torch.device) -> torch.device:
    if isinstance(like, Tensor) and has_streams(like.device):
        backend = _backends.backends_of(group).get(like.device.type)
        if backend is not None and _backends.runs_in_streams(backend):
            return like.device
    return otherwise


def _bytes(tensor: Tensor) -> Tensor:
    """Return the memory of ``tensor`` as bytes, as not every backend takes every dtype."""
    return tensor.view(torch.uint8)
