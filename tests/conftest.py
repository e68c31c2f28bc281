"""What tests find: the global logger off, and put back afterwards; a logger that writes into memory; and
random tests with the same examples in every run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from scripted_device import scripted_device

from timing_logger import TimingLogger, shutdown_timing_logger
from timing_logger.sinks.memory import MemorySink

__all__ = ["global_logger_is_off", "logger", "scripted_device", "sink"]


# A newcomer's first run finds what every run finds. New examples are looked for by ``make test-random``.
# Hypothesis also tries constants that it finds in whatever modules are imported by then, which depends on the
# tests that ran before. It has no setting for that.
with suppress(ImportError):  # a machine with a GPU need not have it
    from hypothesis import settings
    from hypothesis.internal.conjecture import providers

    providers._get_local_constants = lambda: providers._local_constants  # empty, until that function fills it
    settings.register_profile("same-examples", derandomize=True, deadline=None)
    settings.register_profile("new-examples", deadline=None, print_blob=True)
    settings.load_profile("same-examples")


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
