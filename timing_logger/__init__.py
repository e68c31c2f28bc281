"""Asynchronous communication-timing logger for distributed training."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from timing_logger.recording.global_logger import (
    get_timing_logger,
    init_timing_logger,
    shutdown_timing_logger,
)
from timing_logger.recording.logger import TimingLogger
from timing_logger.which_core import NAME as core
from timing_logger.which_core import NOTE as core_note

if TYPE_CHECKING:
    from timing_logger.autologging.start import autolog
    from timing_logger.profilers.cuda_events import CudaEventProfiler
    from timing_logger.profilers.runtime import RuntimeProfiler
    from timing_logger.reading import read_timings
    from timing_logger.reading.converting import convert
    from timing_logger.timers import region_timer
    from timing_logger.timers.cuda_timers import CUDATimer, CUDATimerCollection

    __version__: str

__all__ = [
    "CUDATimer",
    "CUDATimerCollection",
    "CudaEventProfiler",
    "RuntimeProfiler",
    "TimingLogger",
    "autolog",
    "convert",
    "core",
    "core_note",
    "get_timing_logger",
    "init_timing_logger",
    "read_timings",
    "region_timer",
    "shutdown_timing_logger",
]

# These names are imported on first access, so that a process that only records does not import the rest.
_HOME = {
    "CUDATimer": "timing_logger.timers.cuda_timers",
    "CUDATimerCollection": "timing_logger.timers.cuda_timers",
    "CudaEventProfiler": "timing_logger.profilers.cuda_events",
    "RuntimeProfiler": "timing_logger.profilers.runtime",
    "autolog": "timing_logger.autologging.start",
    "convert": "timing_logger.reading.converting",
    "read_timings": "timing_logger.reading.timings",
    "region_timer": "timing_logger.timers",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value = _version_installed()
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _version_installed() -> str:
    from importlib.metadata import PackageNotFoundError, version  # not for every process that records

    try:
        return version("timing_logger")
    except PackageNotFoundError as error:
        raise AttributeError(
            "timing_logger has no __version__, because it is not installed: Python found its folder. "
            "Install it with pip."
        ) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
