"""Instrumented MPI and distributed training: what times itself, and writes to ``timing_logger``.

A table of contents: each name is imported when it is first used, so that importing the package
needs neither MPI nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allreduce_instrumentation.mpi import TimedIntracomm
    from allreduce_instrumentation.optimizer import DistributedOptimizer

__all__ = ["DistributedOptimizer", "TimedIntracomm"]

_HOME = {
    "DistributedOptimizer": "allreduce_instrumentation.optimizer",
    "TimedIntracomm": "allreduce_instrumentation.mpi",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
