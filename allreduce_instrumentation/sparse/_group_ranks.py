"""The ranks of a process group of ``torch.distributed``, for the optimizer."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable
from typing import Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import AllgatherOptions

from allreduce_instrumentation.torch_distributed import TimedProcessGroup
from allreduce_instrumentation.torch_distributed._backends import backends_of, control_device, members_of
from allreduce_instrumentation.torch_distributed.existing_groups import leave_to_its_maker
from timing_logger.errors import ConfigurationError
from timing_logger.recording.logger import TimingLogger


class _Options(Protocol):
    """The options of a call over a process group."""

    asyncOp: bool


Options = TypeVar("Options", bound=_Options)
V = TypeVar("V")


class GroupRanks:
    """The :class:`~._ranks.Ranks` of a process group: communicates over a new group of the same ranks.

    If the group has no backend for the host, tensors of the host travel over the device. The rows of a
    group that times itself go to its own logger.

    Raises:
        ConfigurationError: ``group`` was destroyed, or this rank is not in it.
    """

    def __init__(self, group: dist.ProcessGroup, logger: TimingLogger) -> None:
        self.comm = _group_like(group, members_of(group))
        self._timed = _timed(self.comm, logger)
        self._device = control_device(self.comm)
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
    return TimedProcessGroup(group, logger, backends_of(group))


def _at_once(options: Options) -> Options:
    """Set ``options`` for a call that is waited for at once, and may run in the current stream."""
    options.asyncOp = False
    return options


def _complete(work: dist.Work | None) -> None:
    """Wait for a call that was to run at once; NCCL returns no work then, and the stream waits."""
    if work is not None:
        work.wait()
