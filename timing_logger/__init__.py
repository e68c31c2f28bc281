"""Asynchronous communication-timing logger for distributed training.

Here is what a program needs on its first day: the names in ``__all__``. Communication that times itself is in
``allreduce_instrumentation``, timers and profilers of other systems are in ``timing_logger.compat``, and what
judges the timings is in ``timing_logger.analysis``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from timing_logger import errors
from timing_logger.process.monitor import Monitor
from timing_logger.process.which_core import NAME as recording_core
from timing_logger.process.which_core import NOTE as recording_core_note
from timing_logger.recording.global_logger import (
    get_timing_logger,
    init_timing_logger,
    shutdown_timing_logger,
)
from timing_logger.recording.logger import TimingLogger

if TYPE_CHECKING:
    from timing_logger.autologging.start import autolog
    from timing_logger.reading import read_host_counters, read_stack_samples, read_timings
    from timing_logger.reading.converting import convert

    __version__: str

__all__ = [
    "Monitor",
    "TimingLogger",
    "autolog",
    "convert",
    "errors",
    "get_timing_logger",
    "init_timing_logger",
    "read_host_counters",
    "read_stack_samples",
    "read_timings",
    "recording_core",
    "recording_core_note",
    "shutdown_timing_logger",
]

# These names are imported on first access, so that a process that only records does not import the rest.
_HOME = {
    "autolog": "timing_logger.autologging.start",
    "convert": "timing_logger.reading.converting",
    "read_host_counters": "timing_logger.reading.host_rows",
    "read_stack_samples": "timing_logger.reading.beside",
    "read_timings": "timing_logger.reading.timings",
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
