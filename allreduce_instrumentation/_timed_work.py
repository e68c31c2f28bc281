"""A row for work that may run on a device: the one place that decides which clock times it.

What runs on a device is timed by events in its stream, and nobody waits; what runs on the host, by
the host's clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timing_logger.recording.device.accelerator import find_accelerator
from timing_logger.recording.spans import Timer

if TYPE_CHECKING:
    import torch

    from timing_logger.recording.logger import TimingLogger

_WITHOUT_STREAMS = ("cpu", "meta")


def timed_work(logger: TimingLogger, operation: str, device: torch.device, **columns: Any) -> Timer:
    """A block to be recorded as ``operation`` on the current stream of ``device``.

    ``columns`` are further arguments of ``logger.record_mpi_operation``.
    """
    if not (logger.recording and has_streams(device)):
        return logger.record_mpi_operation(operation, **columns)
    return logger.record_device_operation(operation, stream=stream_elsewhere(device), **columns)


def has_streams(device: torch.device) -> bool:
    """Whether work on ``device`` is queued, and goes on after the call returned."""
    return device.type not in _WITHOUT_STREAMS


def stream_elsewhere(device: torch.device | None) -> Any:
    """The current stream of ``device``, if that is not the calling thread's current device; else None."""
    accelerator = find_accelerator()
    if accelerator is None or device is None or device.index in (None, accelerator.current_index()):
        return None
    return accelerator.current_stream(device.index)
