"""Times work that may run on a device: the one place that decides which clock is used.

Work on a device is timed by events in its stream, without waiting for it. Work on the host is timed by
the host's clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import timing_logger.recording.device.accelerator as accelerators
from timing_logger.recording.cores.protocols import Timer
from timing_logger.schema.record import Stated

if TYPE_CHECKING:
    import torch
    from typing_extensions import Unpack


_WITHOUT_STREAMS = ("cpu", "meta")


class TimesBlocks(Protocol):
    """A recorder, as what is timed on a device or on the host needs it."""

    recording: bool

    @property
    def record_mpi_operation(self) -> Callable[..., Timer]:
        """Times a block by the clock of the host."""

    @property
    def record_device_operation(self) -> Callable[..., Timer]:
        """Times the work of a device for a block."""


def timed_block(
    recorder: TimesBlocks, operation: str, device: torch.device | None, **columns: Unpack[Stated]
) -> Timer:
    """Return a context manager that records its block as ``operation`` on the current stream of ``device``.

    Args:
        recorder: where the row goes.
        operation: the operation's name in the row.
        device: the device that does the work; the host, or None for it, is timed by its own clock.
        columns: further arguments of ``recorder.record_mpi_operation``.
    """
    if device is None or not (recorder.recording and has_streams(device)):
        return recorder.record_mpi_operation(operation, **columns)
    return recorder.record_device_operation(operation, stream=stream_elsewhere(device), **columns)


def has_streams(device: torch.device) -> bool:
    """Tell whether work on ``device`` is queued in a stream, and goes on after the call has returned."""
    return device.type not in _WITHOUT_STREAMS


def stream_elsewhere(device: torch.device | None) -> torch.Stream | None:
    """Return the current stream of ``device``, or None if it is the calling thread's current device.

    Also None if there is no accelerator, or ``device`` is None or has no number.
    """
    accelerator = accelerators.find_accelerator()
    if accelerator is None or device is None or device.index in (None, accelerator.current_index()):
        return None
    return accelerator.current_stream(device.index)


def stream_of_handle(handle: int, index: int) -> torch.Stream | None:
    """Return the stream of device ``index`` that has this ``cudaStream_t``; 0 is the default stream.

    None if torch has not used a device yet: then nothing can be marked in the stream.
    """
    accelerator = accelerators.find_accelerator()
    return None if accelerator is None else accelerator.stream_of_handle(handle, index)
