"""Times NCCL where Python calls it by itself, without ``torch.distributed``: nccl4py's communicators.

Needs ``nccl4py``; the module is imported when :class:`TimedCommunicator` is.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from timing_logger.errors import ConfigurationError

if TYPE_CHECKING:
    from allreduce_instrumentation.nccl.communicator import TimedCommunicator

__all__ = ["TimedCommunicator"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return import_module(f"{__name__}.communicator").TimedCommunicator
    except ImportError as error:
        raise ConfigurationError(
            f"TimedCommunicator needs nccl4py, which cannot be imported ({error}): "
            "pip install 'nccl4py[cu13]', or [cu12], as your driver needs."
        ) from error
