"""The Python core, the readable specification: all its classes, under the names that the native ones have."""

from timing_logger.recording.cores.channel import Channel
from timing_logger.recording.cores.python.background import BackgroundSpan, Wait
from timing_logger.recording.cores.python.calls import Caller, CollectiveCount, OpenCall, Span, Unrecorded

__all__ = [
    "BackgroundSpan",
    "Caller",
    "Channel",
    "CollectiveCount",
    "OpenCall",
    "Span",
    "Unrecorded",
    "Wait",
]
