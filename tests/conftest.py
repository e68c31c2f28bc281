"""What tests find: the global logger off, and put back afterwards; and a logger that writes into memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scripted_device import scripted_device

from timing_logger import TimingLogger, shutdown_timing_logger
from timing_logger.sinks.memory import MemorySink

__all__ = ["global_logger_is_off", "logger", "scripted_device", "sink"]


@pytest.fixture(autouse=True)
def global_logger_is_off() -> Iterator[None]:
    yield
    shutdown_timing_logger()


@pytest.fixture
def sink() -> MemorySink:
    return MemorySink()


@pytest.fixture
def logger(sink: MemorySink) -> TimingLogger:
    return TimingLogger(0, log_dir=None, sinks=[sink])
