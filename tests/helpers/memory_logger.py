"""The logger that tests of what records write with, and the sink in memory that it writes to."""

from __future__ import annotations

import pytest

from timing_logger import TimingLogger
from timing_logger.sinks.memory import MemorySink


@pytest.fixture
def sink() -> MemorySink:
    """A sink in memory."""
    return MemorySink()


@pytest.fixture
def logger(sink: MemorySink) -> TimingLogger:
    """A logger that writes to ``sink``."""
    return TimingLogger(0, log_dir=None, sinks=[sink])
