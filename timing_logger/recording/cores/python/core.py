"""The Python core, the readable specification: all its classes, under the names that the native ones have."""

from timing_logger.recording.cores.channel import Channel
from timing_logger.recording.cores.python.background import BackgroundSpan, Completion, LearnSize, Wait
from timing_logger.recording.cores.python.calls import (
    Caller,
    CollectiveCount,
    OpenCall,
    Span,
    TimedGroup,
    Unrecorded,
)
from timing_logger.recording.cores.python.issued import (
    completing_method,
    handle_class,
    issued_method,
    lose_operation,
)
from timing_logger.recording.cores.python.small_files import SmallFiles

__all__ = [
    "BackgroundSpan",
    "Caller",
    "Channel",
    "CollectiveCount",
    "Completion",
    "LearnSize",
    "OpenCall",
    "SmallFiles",
    "Span",
    "TimedGroup",
    "Unrecorded",
    "Wait",
    "completing_method",
    "handle_class",
    "issued_method",
    "lose_operation",
]
