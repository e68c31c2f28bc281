"""Waiting for what other threads and processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

LIMIT_S = 60.0


def wait_for(condition: Callable[[], Found]) -> Found:
    """Return what ``condition`` returns, once that is true; a test fails if it is not within a minute."""
    deadline = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "what was waited for did not come"
        time.sleep(0.005)
    return found
