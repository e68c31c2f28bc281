"""NCCL's groups: the calls in one are queued when it ends, and so end their rows."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias

from timing_logger.record import UNRESOLVED
from timing_logger.recording.cores.chosen import Span
from timing_logger.recording.device.span import DeviceSpan

Failure: TypeAlias = "type[BaseException] | None"
"""What a call raised; None if nothing."""


def end(span: Span, failure: Failure) -> None:
    """End the row of a call now, in the stream of the call."""
    if not span.claim():
        return
    if isinstance(span, DeviceSpan):
        span.end_interval(failure)
    else:
        status = UNRESOLVED if failure is None else f"error:{failure.__name__}"
        span.write(span.operation, span.start_ns, None, status)


class OpenGroups(threading.local):
    """The calls inside the NCCL group that the calling thread has open; NCCL's groups belong to threads."""

    def __init__(self) -> None:
        self._depth = 0
        self._held: list[Span] = []

    def hold(self, span: Span) -> bool:
        """Keep ``span`` until the group ends; return False if no group is open."""
        if self._depth:
            self._held.append(span)
        return self._depth > 0

    def started(self) -> None:
        """Note that a group was opened."""
        self._depth += 1

    def ended(self, failure: Failure) -> None:
        """Note that a group was closed; the outermost one has queued the work of all calls in it."""
        self._depth = max(0, self._depth - 1)
        if self._depth == 0:
            held, self._held = self._held, []
            for span in held:
                end(span, failure)


OPEN_GROUPS = OpenGroups()


@functools.cache
def watch_groups(bindings: ModuleType, start: str, *ends: str) -> None:
    """Have the end of NCCL's groups end the rows of the calls inside them.

    Args:
        bindings: the module whose functions begin and end groups; they are replaced in it.
        start: the name of the function that begins a group.
        ends: the names of those that end one.
    """
    setattr(bindings, start, _starting(getattr(bindings, start)))
    for name in ends:
        setattr(bindings, name, _ending(getattr(bindings, name)))


def _starting(untimed: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(untimed)
    def group_start(*args: Any, **kwargs: Any) -> Any:
        result = untimed(*args, **kwargs)
        OPEN_GROUPS.started()
        return result

    return group_start


def _ending(untimed: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(untimed)
    def group_end(*args: Any, **kwargs: Any) -> Any:
        failure: Failure = None
        try:
            return untimed(*args, **kwargs)
        except BaseException as error:
            failure = type(error)
            raise
        finally:
            OPEN_GROUPS.ended(failure)

    return group_end
