"""What every test finds: the global logger off, and put back afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scripted_device import scripted_device

from timing_logger import shutdown_timing_logger

__all__ = ["global_logger_is_off", "scripted_device"]


@pytest.fixture(autouse=True)
def global_logger_is_off() -> Iterator[None]:
    yield
    shutdown_timing_logger()
