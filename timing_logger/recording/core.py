"""The core that this process records with: the native one, or the Python one that has the same classes.

The environment variable ``TIMING_LOGGER_CORE`` decides: ``python``, or ``native``, with which an import fails
where the native core was not built. Without it the native one is used if it is there, unless this Python runs
without its global lock: loading the native core would switch the lock on.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from timing_logger.errors import ConfigurationError

VARIABLE = "TIMING_LOGGER_CORE"
_NATIVE = "timing_logger._native.core"


def _chosen() -> str:
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "python", "native"):
        raise ConfigurationError(f"{VARIABLE} must be 'python' or 'native', and is {wanted!r}.")
    has_global_lock: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
    if wanted == "native" or (wanted == "" and has_global_lock):
        try:
            import_module(_NATIVE)
        except ImportError as error:
            if wanted == "native":
                raise ConfigurationError(
                    f"{VARIABLE} is 'native', and the native core cannot be imported: {error}. Install the "
                    "package where there is a C compiler, or unset the variable."
                ) from error
        else:
            return "native"
    return "python"


NAME = _chosen()
"""``"native"`` or ``"python"``."""

MOST_SLOTS = 2**20
"""The most records that the native core's ring holds: a longer queue is one of Python's."""

if TYPE_CHECKING or NAME == "python":
    from timing_logger.recording.channel import Channel
    from timing_logger.recording.python_background import BackgroundSpan, Wait
    from timing_logger.recording.python_core import Caller, CollectiveCount, OpenCall, Span, Unrecorded
else:
    from timing_logger._native.core import (
        BackgroundSpan,
        Caller,
        Channel,
        CollectiveCount,
        OpenCall,
        Span,
        Unrecorded,
        Wait,
    )


__all__ = [
    "NAME",
    "BackgroundSpan",
    "Caller",
    "Channel",
    "CollectiveCount",
    "OpenCall",
    "Span",
    "Unrecorded",
    "Wait",
    "new_channel",
]


def new_channel(capacity: int) -> Channel:
    """Return a channel for at most ``capacity`` records."""
    if capacity <= MOST_SLOTS:
        return Channel(capacity)
    from timing_logger.recording import channel  # which grows as it fills

    return channel.Channel(capacity)
