"""Work that takes a certain time of a processor, however long that takes."""

from __future__ import annotations

import time


def compute(ms: float) -> None:
    """Use ``ms`` of this thread's processor time."""
    until_s = time.thread_time() + ms / 1e3
    while time.thread_time() < until_s:
        sum(range(200))
