"""Times NCCL where Python calls it by itself, without ``torch.distributed``: nccl4py and CuPy.

Both are imported when their class is: :class:`TimedCommunicator` needs ``nccl4py``, and
:class:`TimedNcclCommunicator` needs CuPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from timing_logger.errors import ConfigurationError

if TYPE_CHECKING:
    from allreduce_instrumentation.nccl.communicator import TimedCommunicator
    from allreduce_instrumentation.nccl.cupy import TimedNcclCommunicator

__all__ = ["TimedCommunicator", "TimedNcclCommunicator"]

_NEEDS = {
    "TimedCommunicator": ("communicator", "nccl4py", "pip install 'nccl4py[cu13]', or [cu12]"),
    "TimedNcclCommunicator": ("cupy", "CuPy with NCCL", "pip install cupy-cuda13x, or cupy-cuda12x"),
}


def __getattr__(name: str) -> Any:
    if name not in _NEEDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, library, installed = _NEEDS[name]
    try:
        return getattr(import_module(f"{__name__}.{module}"), name)
    except ImportError as error:
        raise ConfigurationError(
            f"{name} needs {library}, which cannot be imported ({error}): {installed}, as your driver needs."
        ) from error
