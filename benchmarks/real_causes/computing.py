"""Work that takes a certain time of a processor, or of a device, however long that takes."""

from __future__ import annotations

import time

_HOST_SHARE = 0.04  # little, as ranks that share a core would wait for it


def compute(ms: float) -> None:
    """Use ``ms`` of this thread's processor time."""
    until_s = time.thread_time() + ms / 1e3
    while time.thread_time() < until_s:
        sum(range(200))


def compute_on_a_device(ms: float) -> None:
    """Use a processor for a small part of ``ms``, and sleep for the rest, as if a device did it."""
    compute(ms * _HOST_SHARE)
    time.sleep(ms * (1 - _HOST_SHARE) / 1e3)
