"""The Python core, the readable specification: all its classes, under the names that the native ones have."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from timing_logger.recording.cores.channel import Channel as Channel
from timing_logger.recording.cores.issued_calls import CommonCalls, CompletingCall, two_given
from timing_logger.recording.cores.python.background import BackgroundSpan as BackgroundSpan
from timing_logger.recording.cores.python.background import Completion as Completion
from timing_logger.recording.cores.python.background import LearnSize as LearnSize
from timing_logger.recording.cores.python.background import Wait as Wait
from timing_logger.recording.cores.python.calls import Caller as Caller
from timing_logger.recording.cores.python.calls import CollectiveCount as CollectiveCount
from timing_logger.recording.cores.python.calls import OpenCall as OpenCall
from timing_logger.recording.cores.python.calls import Span as Span
from timing_logger.recording.cores.python.calls import TimedGroup as TimedGroup
from timing_logger.recording.cores.python.calls import Unrecorded as Unrecorded
from timing_logger.recording.cores.python.small_files import SmallFiles as SmallFiles

# -- methods that begin an operation and return a handle on it, and calls that see it end ----------------


M = TypeVar("M", bound=Callable[..., Any])
C = TypeVar("C", bound=type)


def issued_method(general: M, common: CommonCalls) -> M:
    """Return the timed form of a method, where ``general`` is one for any call.

    The native core makes common calls in C, to the same effect.
    """
    return general


def completing_method(of: CompletingCall) -> Any:
    """Return the timed form of a call that may see operations end."""

    @functools.wraps(of.call)
    def seeing(*args: Any, **kwargs: Any) -> Any:
        two = two_given(of.names, args, kwargs)
        if two is None:  # the call itself says what is wrong
            return of.call(*args, **kwargs)
        given, told = two
        call = Completion.of_handles((given,) if of.of_one else given, of.blocks)
        if call is None:
            return of.call(given, told)
        if told is None and call.learns:
            told = [] if of.tells_each else of.status()
        try:
            result = of.call(given, told)
        except BaseException as error:
            call.failed(error)
            raise
        call.saw(None if of.places is None else of.places(result), told if of.tells_each else (told,))
        return result

    return seeing


def handle_class(kind: C) -> C:
    """Have the handles of a class write the rows of operations as unresolved whose end nobody saw."""
    kind.__del__ = lose_operation  # type: ignore[attr-defined]
    return kind


def lose_operation(handle: Any) -> None:
    """Write the row of a handle's operation as unresolved if nobody saw its end: to be its ``__del__``."""
    operation: BackgroundSpan | None = getattr(handle, "_operation", None)  # not set in one just made
    if operation is not None:
        operation.lose()
