"""An all-reducer's transport over a process group of ``torch.distributed``."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import AllgatherOptions

from allreduce_instrumentation.torch_distributed import TimedProcessGroup, _backends
from allreduce_instrumentation.torch_distributed._group_timing import GroupIdentity
from allreduce_instrumentation.torch_distributed.existing_groups import leave_to_its_maker, logger_timing
from timing_logger.errors import ConfigurationError
from timing_logger.recording.device.span import has_streams, timed_block
from timing_logger.recording.global_logger import get_timing_logger
from timing_logger.recording.logger import TimingLogger


class _Options(Protocol):
    """The options of a call over a process group."""

    asyncOp: bool


Options = TypeVar("Options", bound=_Options)
V = TypeVar("V")


class GroupRanks:
    """The :class:`~._transport.Ranks` of a process group: communicates over a new group of the same ranks.

    If the group has no backend for the host, tensors of the host travel over the device. The rows of a
    group that times itself go to its own logger.

    Raises:
        ConfigurationError: ``group`` was destroyed, or this rank is not in it.
    """

    def __init__(self, group: dist.ProcessGroup, logger: TimingLogger) -> None:
        self.comm = _group_like(group, _backends.members_of(group))
        self._timed = _timed(self.comm, logger)
        self._device = _backends.control_device(self.comm)
        self._identity = self._timed.timing.identity
        self.rank, self.size, self.group = self._identity.rank, self._identity.size, self._identity.name

    @property
    def collectives(self) -> int:
        return self._identity.collectives

    def travels_from(self, device: torch.device) -> bool:
        return device.type == "cpu" or self._timed.timing.in_stream(device)

    def sum(self, tensor: Tensor) -> None:
        self._in_place(self._timed.allreduce, dist.AllreduceOptions(), tensor)

    def broadcast(self, tensor: Tensor) -> None:
        self._in_place(self._timed.broadcast, dist.BroadcastOptions(), tensor)

    def allgather(self, value: V) -> list[V]:
        content = torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8)
        lengths = [int(length) for length in self._gathered(torch.tensor([content.numel()]))]
        padded = content.new_zeros(max(lengths))
        padded[: content.numel()] = content
        everyone = self._gathered(padded)
        return [pickle.loads(bytes(e[:n].tolist())) for e, n in zip(everyone, lengths, strict=True)]

    def broadcast_bytes(self, content: bytes) -> bytes:
        length = torch.tensor([len(content)])
        self.broadcast(length)
        tensor = torch.zeros(int(length), dtype=torch.uint8)
        if self.rank == 0:
            tensor.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        self.broadcast(tensor)
        return tensor.numpy().tobytes()

    def free(self) -> None:
        with contextlib.suppress(ValueError, AssertionError):  # all groups were destroyed already
            dist.destroy_process_group(self.comm)

    def _gathered(self, tensor: Tensor) -> list[Tensor]:
        there = tensor.to(self._device)
        everyone = [torch.empty_like(there) for _ in range(self.size)]
        _complete(self._timed.allgather([everyone], [there], _at_once(AllgatherOptions())))
        return [each.cpu() for each in everyone]

    def _in_place(
        self, method: Callable[[list[Tensor], Options], dist.Work | None], options: Options, tensor: Tensor
    ) -> None:
        """Make a call that overwrites ``tensor``, which travels over the device if it has to."""
        on_device = tensor.device.type != "cpu" and self.travels_from(tensor.device)
        there = tensor if on_device else tensor.to(self._device)
        _complete(method([there], _at_once(options)))
        if there is not tensor:
            tensor.copy_(there)


def _group_like(group: dist.ProcessGroup, ranks: list[int]) -> dist.ProcessGroup:
    """Return a new group of ``ranks``, with the backend of ``group``; collective over ``ranks``."""
    own = dist.new_group(
        ranks,
        backend=dist.get_backend(group),
        # without it all ranks of the world would have to take part
        use_local_synchronization=len(ranks) < dist.get_world_size(),
        group_desc=f"{group.group_desc}/optimizer",
    )
    if not isinstance(own, dist.ProcessGroup):
        raise ConfigurationError("comm must be a process group that this rank is in.")
    return own


def _timed(group: dist.ProcessGroup, logger: TimingLogger) -> TimedProcessGroup:
    if isinstance(group, TimedProcessGroup):
        return group
    leave_to_its_maker(group)  # else its calls would have two rows under instrument()
    return TimedProcessGroup(group, logger, _backends.backends_of(group))


def _at_once(options: Options) -> Options:
    """Set ``options`` for a call that is waited for at once, and may run in the current stream."""
    options.asyncOp = False
    return options


def _complete(work: dist.Work | None) -> None:
    """Wait for a call that was to run at once; NCCL returns no work then, and the stream waits."""
    if work is not None:
        work.wait()


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
