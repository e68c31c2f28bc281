"""Asynchronous communication-timing logger for distributed training."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from timing_logger.global_logger import get_timing_logger, init_timing_logger, shutdown_timing_logger
from timing_logger.logger import TimingLogger

if TYPE_CHECKING:
    from timing_logger.profilers.cuda_events import CudaEventProfiler
    from timing_logger.profilers.runtime import RuntimeProfiler
    from timing_logger.reading import read_timings
    from timing_logger.timers import region_timer
    from timing_logger.timers.cuda_timers import CUDATimer, CUDATimerCollection

__all__ = [
    "CUDATimer",
    "CUDATimerCollection",
    "CudaEventProfiler",
    "RuntimeProfiler",
    "TimingLogger",
    "get_timing_logger",
    "init_timing_logger",
    "read_timings",
    "region_timer",
    "shutdown_timing_logger",
]

# Loaded when first asked for: what a logger does not need, it need not import.
_HOME = {
    "CUDATimer": "timing_logger.timers.cuda_timers",
    "CUDATimerCollection": "timing_logger.timers.cuda_timers",
    "CudaEventProfiler": "timing_logger.profilers.cuda_events",
    "RuntimeProfiler": "timing_logger.profilers.runtime",
    "read_timings": "timing_logger.reading",
    "region_timer": "timing_logger.timers",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
