"""What every row of one process group has in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from allreduce_instrumentation.process_group._backends import runs_in_streams
from allreduce_instrumentation.process_group._group_identity import GroupIdentity
from allreduce_instrumentation.process_group._layer_names import DdpModels

if TYPE_CHECKING:
    from allreduce_instrumentation.process_group._backend_durations import BackendDurations
    from allreduce_instrumentation.process_group._operations import DeviceOperation, HostOperation
    from timing_logger.recording.logger import TimingLogger


class GroupTiming:
    """How one process group's operations are timed.

    Attributes:
        logger: where the rows go.
        identity: the group's name and counts.
        ddp: the DDP models that reduce over the group, as far as known.
        has_streams: some backend queues its work in a device's streams.
        batch: the operations of the coalesced call that is being put together; None outside of one.
        backend_durations: what NCCL itself says of the group's collectives; None if it is not asked.

    Args:
        backends: the backend for each type of device.
    """

    def __init__(self, group: dist.ProcessGroup, logger: TimingLogger, backends: Mapping[str, str]) -> None:
        self.logger = logger
        self.identity = GroupIdentity.of(group)
        logger.add_group(self.identity, self.identity.name)
        self.ddp = DdpModels()
        self.batch: list[HostOperation | DeviceOperation] | None = None
        self.backend_durations: BackendDurations | None = None
        self.backends = dict(backends)
        self._in_streams = frozenset(
            device for device, name in backends.items() if device != "cpu" and runs_in_streams(name)
        )
        self.has_streams = bool(self._in_streams)
        self._without_future: set[str] = set()

    def in_stream(self, device: torch.device | None) -> bool:
        """Whether what lies on such a device is worked on in its streams.

        None, for a call that does not tell, is the group's only kind of device.
        """
        if device is None:
            return bool(self._in_streams) and len(self._in_streams) == len(self.backends)
        return device.type in self._in_streams

    def gives_future(self, method: str) -> bool:
        """Whether the work of ``method`` is known to have a future, or not yet known to have none."""
        return method not in self._without_future

    def note_no_future(self, method: str) -> None:
        """Raising costs more than asking, so it is asked once."""
        self._without_future.add(method)
