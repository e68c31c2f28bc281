"""The process's logger: made once, had from anywhere, closed once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from timing_logger.errors import AlreadyInitializedError
from timing_logger.recording.logger import TimingLogger
from timing_logger.recording.options import LoggerOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack


_OFF = TimingLogger(0, enabled=False)

_logger: TimingLogger = _OFF
_owner_pid: int = os.getpid()
_is_lent = False


def init_timing_logger(
    rank: int, log_dir: str | os.PathLike[str] | None = "logs/timing", **options: Unpack[LoggerOptions]
) -> TimingLogger:
    """Create the process's logger.

    Args:
        rank, log_dir, options: the arguments of :class:`TimingLogger`.

    Raises:
        AlreadyInitializedError: this process already has a logger.
        ConfigurationError, LogPathError: as raised by :class:`TimingLogger`.
    """
    global _logger, _owner_pid, _is_lent
    if _logger is not _OFF and not _is_lent and _owner_pid == os.getpid():
        raise AlreadyInitializedError(
            f"this process has {_logger!r} already: use get_timing_logger(), "
            "or call shutdown_timing_logger() first."
        )
    _logger = TimingLogger(rank, log_dir, **options)
    _owner_pid, _is_lent = os.getpid(), False
    return _logger


def lend_timing_logger(logger: TimingLogger) -> None:
    """Make ``logger`` the process's logger until the program initialises one of its own."""
    global _logger, _owner_pid, _is_lent
    _logger, _owner_pid, _is_lent = logger, os.getpid(), True


def get_timing_logger() -> TimingLogger:
    """Return the process's logger; before ``init_timing_logger``, one that is off."""
    return _logger


def shutdown_timing_logger() -> None:
    """Close the process's logger, if there is one. Calling it again is harmless."""
    global _logger
    if not _is_lent:
        logger, _logger = _logger, _OFF
        logger.close()
