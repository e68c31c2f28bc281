"""``GroupTiming``: what all rows of one process group have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from allreduce_instrumentation._operation_counts import OperationCounts
from allreduce_instrumentation.torch_distributed._backend_durations import BackendDurations, WorkDurations
from allreduce_instrumentation.torch_distributed._backends import has_nccl2, runs_in_streams
from allreduce_instrumentation.torch_distributed._layer_names import DdpModels
from allreduce_instrumentation.torch_distributed._operations import (
    DeviceOperation,
    HostOperation,
    Nccl2Operation,
    let_end,
)
from timing_logger.recording.logger import TimingLogger


class GroupIdentity(OperationCounts):
    """The name, size and operation counts of one process group.

    Attributes:
        name: the group's description and number, such as ``default_pg 0`` or ``mesh_dp 3``.
    """

    __slots__ = ()

    @classmethod
    def of(cls, group: dist.ProcessGroup) -> GroupIdentity:
        """Return the identity of ``group``, which is made at the first call. Not collective."""
        found = _identities.get(group)
        if found is None:
            found = cls(_name_of(group), group.size(), group.rank())
            _identities[group] = found
        return found

    def share_with(self, group: dist.ProcessGroup) -> None:
        """Make this the identity of ``group``, too, which has the same ranks and shares name and counts."""
        _identities[group] = self


def _name_of(group: dist.ProcessGroup) -> str:
    try:
        kind, name = group.group_desc, group.group_name
    except RuntimeError:  # backends keep the names, and a group written in Python has no backends
        names: dict[dist.ProcessGroup, Any] = c10d._world.pg_names
        kind, name = "", names.get(group, "")
    return f"{'process group' if kind in ('', 'undefined') else kind} {name}".rstrip()


_identities: WeakKeyDictionary[dist.ProcessGroup, GroupIdentity] = WeakKeyDictionary()


# ------------------------------------------------------------


class GroupTiming:
    """The logger, identity and state with which the operations of one process group are timed.

    Attributes:
        logger: where the rows go.
        identity: the group's name and counts.
        ddp: the DDP models that reduce over the group, as far as known.
        on_device: the class of the operations that are timed in a stream.
        has_streams: whether some backend queues its work in a device's streams.
        batch: the operations of the coalesced call that is being put together; None outside of one.
        backend_durations: writes the durations that NCCL itself reports; None if it is not asked for them.
        backends: the backend for each type of device.
        without_future: the methods whose works are known to have no future: asking one raises, which is slow.

    Args:
        group: the untimed group.
        logger: where the rows go.
        backends: the backend for each type of device.
    """

    def __init__(self, group: dist.ProcessGroup, logger: TimingLogger, backends: Mapping[str, str]) -> None:
        self.logger = logger
        self.identity = GroupIdentity.of(group)
        logger.add_group(self.identity, self.identity.name)
        self.ddp = DdpModels()
        self.batch: list[HostOperation | DeviceOperation] | None = None
        self.backend_durations: BackendDurations | WorkDurations | None = None
        self.backends = dict(backends)
        self._in_streams = frozenset(
            device for device, name in backends.items() if device != "cpu" and runs_in_streams(name)
        )
        self.has_streams = bool(self._in_streams)
        self.on_device: type[DeviceOperation] = Nccl2Operation if has_nccl2(group) else DeviceOperation
        self.without_future: set[str] = set()

    @property
    def timed_in_streams(self) -> list[str]:
        """The types of devices whose operations C++ may time: ``nccl2`` differs too much from the others."""
        return [] if self.on_device is Nccl2Operation else sorted(self._in_streams)

    def in_stream(self, device: torch.device | None) -> bool:
        """Tell whether operations on tensors of ``device`` are queued in the device's streams.

        Args:
            device: None if the call does not tell; then the answer is True only if all of the group's
                backends work in streams.
        """
        if device is None:
            return bool(self._in_streams) and len(self._in_streams) == len(self.backends)
        return device.type in self._in_streams

    def let_callbacks_end(self) -> None:
        """Wait until the callbacks of the group's operations are over, for 0.5 seconds at most.

        To be called before the group is destroyed: torch then joins the backend's threads, with the
        interpreter's lock held, for which a thread in a callback waits.
        """
        let_end(lambda operation: getattr(operation, "group", None) == self.identity.name)
