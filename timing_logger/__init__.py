"""Asynchronous communication-timing logger for distributed training."""

from typing import TYPE_CHECKING, Any

from timing_logger.global_logger import get_timing_logger, init_timing_logger, shutdown_timing_logger
from timing_logger.logger import TimingLogger

if TYPE_CHECKING:
    from timing_logger.reading import read_timings

__all__ = [
    "TimingLogger",
    "get_timing_logger",
    "init_timing_logger",
    "read_timings",
    "shutdown_timing_logger",
]


def __getattr__(name: str) -> Any:
    if name == "read_timings":  # brings pandas
        from timing_logger.reading import read_timings

        return read_timings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
