"""NCCL's own durations where each work tells its own: with ``nccl2``, torch's NCCL backend since 2.15.

That backend takes no hook from Python. But a work that is complete says how long the operation took in its
stream, if the backend was told to measure. So works are kept until they are complete, and are asked whenever
the next call over the group is made, and when the group or the logger ends. Nothing waits for them. Until
then a work keeps the tensors that it writes.
"""

from __future__ import annotations

import threading
from collections import deque
from time import perf_counter_ns
from weakref import ref

import torch
import torch.distributed as dist

import timing_logger.recording.device.accelerator as accelerators
from allreduce_instrumentation.torch_distributed._backend_durations import MAX_OPEN, switched_on, write_row
from allreduce_instrumentation.torch_distributed._backends import has_nccl2
from allreduce_instrumentation.torch_distributed._operations import DeviceOperation, GroupOperation
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import is_message

_NS_PER_MS = 1_000_000


class WorkDurations:
    """Writes one row per collective of a group with the duration that its work tells.

    Args:
        device: the one on which the group works; None for the current one.
    """

    def __init__(self, device: torch.device | None) -> None:
        self._index = None if device is None else device.index
        self._open: deque[tuple[DeviceOperation, dist.Work]] = deque()
        self._lock = threading.Lock()  # threads of autograd issue operations as well

    @classmethod
    def of(cls, group: dist.ProcessGroup, wanted: bool = False) -> WorkDurations | None:
        """Have the works of ``group`` measured, if ``TORCH_NCCL_ENABLE_TIMING`` is set or it is wanted.

        Args:
            group: an untimed group.
            wanted: measure this group if the variable does not say so.

        Returns:
            None if the group has no ``nccl2``, if nobody wants its durations, or if a further backend of the
            group cannot be told to measure.
        """
        if not (wanted or switched_on()) or not has_nccl2(group):
            return None
        try:
            group._enable_collectives_timing()  # type: ignore[attr-defined]
        except RuntimeError:  # the log has it from the hook, which torch refuses as well
            return None
        return cls(group.bound_device_id)

    def note(self, operation: GroupOperation, work: dist.Work | None) -> None:
        """Keep the ``work`` of ``operation``, which this thread has just issued; messages are left out."""
        self.collect()
        if (
            work is not None
            and isinstance(operation, DeviceOperation)
            and not is_message(operation.operation)
        ):
            with self._lock:
                self._open.append((operation, work))
                if len(self._open) > MAX_OPEN:  # what hangs keeps those behind it
                    self._open.popleft()

    def collect(self) -> None:
        """Write the rows of the works that are complete by now, in the order of their issue.

        None are written where to ask would break a graph capture.
        """
        accelerator = accelerators.find_accelerator() if self._open else None
        if accelerator is None:
            return
        index = accelerator.current_index() if self._index is None else self._index
        with self._lock, accelerator.asking(index) as is_harmless:
            while is_harmless and self._open and _is_complete(self._open[0][1]):
                _write(*self._open.popleft())

    def collect_before_close(self, logger: TimingLogger) -> None:
        """Have ``logger`` collect before it is closed, unless the group, which holds this, is gone."""
        held_by_the_group = ref(self)

        def collect() -> None:
            durations = held_by_the_group()
            if durations is not None:
                durations.collect()

        logger.before_close(collect)


def _is_complete(work: dist.Work) -> bool:
    try:
        return work.is_completed()
    except RuntimeError:  # the device failed: the caller's own wait says so
        return True


def _write(operation: DeviceOperation, work: dist.Work) -> None:
    try:
        duration_ns = round(work._get_duration() * _NS_PER_MS)  # type: ignore[attr-defined]
    except RuntimeError:  # it failed or was aborted
        return
    write_row(operation, perf_counter_ns(), duration_ns)
