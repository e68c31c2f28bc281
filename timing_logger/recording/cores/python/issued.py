"""The Python core's methods that begin an operation and return a handle on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from timing_logger.recording.cores.issued_calls import CommonCalls
from timing_logger.recording.cores.python.background import BackgroundSpan

M = TypeVar("M", bound=Callable[..., Any])


def issued_method(general: M, common: CommonCalls) -> M:
    """Return the timed form of a method, where ``general`` is one for any call.

    The native core makes common calls in C, to the same effect.
    """
    return general


def lose_operation(handle: Any) -> None:
    """Write the row of a handle's operation as unresolved if nobody saw its end: to be its ``__del__``."""
    operation: BackgroundSpan | None = getattr(handle, "_operation", None)  # not set in one just made
    if operation is not None:
        operation.lose()
