"""The logger of a process: whose it is, and who may replace and close it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from timing_logger import TimingLogger, get_timing_logger, init_timing_logger, shutdown_timing_logger
from timing_logger.errors import AlreadyInitializedError
from timing_logger.recording import global_logger
from timing_logger.recording.global_logger import lend_timing_logger
from timing_logger.sinks.memory import MemorySink


@pytest.fixture(autouse=True)
def none_yet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process has no logger, and afterwards the one that it had before."""
    monkeypatch.setattr(global_logger, "_logger", global_logger._OFF)
    monkeypatch.setattr(global_logger, "_owner_pid", os.getpid())
    monkeypatch.setattr(global_logger, "_is_lent", False)
    yield
    global_logger._logger.close()


def is_closed(logger: TimingLogger) -> bool:
    assert logger._flusher is not None
    return logger._flusher.closed


def test_a_logger_that_is_lent_is_everybodys_until_the_program_makes_its_own(logger: TimingLogger) -> None:
    lend_timing_logger(logger)
    assert get_timing_logger() is logger
    own = init_timing_logger(0, None, sinks=[MemorySink()])
    assert get_timing_logger() is own
    with pytest.raises(AlreadyInitializedError, match=r"or call shutdown_timing_logger\(\) first\.$"):
        init_timing_logger(0, None, sinks=[MemorySink()])
    assert get_timing_logger() is own
    logger.close()


def test_the_program_closes_its_own_logger_and_none_that_is_lent(logger: TimingLogger) -> None:
    lend_timing_logger(logger)
    shutdown_timing_logger()
    assert get_timing_logger() is logger
    assert not is_closed(logger)
    own = init_timing_logger(0, None, sinks=[MemorySink()])
    shutdown_timing_logger()
    assert is_closed(own)
    assert not get_timing_logger().enabled
    shutdown_timing_logger()
    logger.close()


def test_after_the_shutdown_another_one_may_be_made() -> None:
    first = init_timing_logger(0, None, sinks=[MemorySink()])
    shutdown_timing_logger()
    second = init_timing_logger(3, None, sinks=[MemorySink()])
    assert second is not first
    assert get_timing_logger().rank == 3


def test_a_forked_child_may_make_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    of_parent = init_timing_logger(0, None, sinks=[MemorySink()])
    monkeypatch.setattr(global_logger, "_owner_pid", os.getpid() + 1)
    of_child = init_timing_logger(0, None, sinks=[MemorySink()])
    assert get_timing_logger() is of_child
    with pytest.raises(AlreadyInitializedError):
        init_timing_logger(0, None, sinks=[MemorySink()])
    of_parent.close()


def test_a_logger_that_cannot_be_made_leaves_the_one_that_is_lent(logger: TimingLogger) -> None:
    lend_timing_logger(logger)
    with pytest.raises(TypeError, match="no_such_option"):
        init_timing_logger(0, None, no_such_option=1)  # type: ignore[call-arg]
    assert get_timing_logger() is logger
    shutdown_timing_logger()
    assert not is_closed(logger)
    logger.close()
