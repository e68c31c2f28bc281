"""A row for work that may run on a device: the one place that decides what its duration means.

Today every duration is the host clock's. On a device, work only queues when it is called, so the
host waits for the stream's end before the row starts and before it ends: then the row holds this
work and nothing else. A caller that asks not to wait gets the time that queueing took.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from timing_logger.logger import TimingLogger

_WITHOUT_STREAMS = ("cpu", "meta")


@contextmanager
def timed_work(
    logger: TimingLogger, operation: str, device: torch.device, *, wait: bool = True, **columns: Any
) -> Iterator[None]:
    """Record the block as ``operation`` on ``device``'s current stream.

    Args:
        wait: False if the caller must not be kept until the work is done; then the row is the time
            to queue it. Without a row nothing ever waits.
        columns: further arguments of ``logger.record_mpi_operation``.
    """
    if not (logger.recording and wait and has_streams(device)):
        with logger.record_mpi_operation(operation, **columns):
            yield
        return
    finish(device)  # what was queued before is not part of this
    with logger.record_mpi_operation(operation, **columns):
        yield
        finish(device)


def has_streams(device: torch.device) -> bool:
    """Whether work on ``device`` is queued, and goes on after the call returned."""
    return device.type not in _WITHOUT_STREAMS


def finish(device: torch.device) -> None:
    """Wait for what is queued in the current stream of ``device``, and for nothing else on it."""
    event = torch.Event(device)
    event.record()
    event.synchronize()
