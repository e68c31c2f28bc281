"""The classes of the core that this process records with; ``timing_logger.which_core`` chooses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timing_logger.which_core import NAME

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
