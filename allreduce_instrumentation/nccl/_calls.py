"""How a call of NCCL becomes a row: between two events in the stream that it is given.

NCCL only queues the work, so the time that a call takes says nothing of it. Where torch does not use the
device there are no events, and the row has no duration.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter_ns
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from allreduce_instrumentation._operation_counts import OperationCounts
from timing_logger.recording.cores.chosen import Span
from timing_logger.recording.device.host_or_device import stream_of_handle
from timing_logger.recording.device.intervals import open_interval
from timing_logger.recording.device.span import DeviceSpan
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import UNRESOLVED

if TYPE_CHECKING:
    import torch


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


# ------------------------------------------------------------


T = TypeVar("T")


class NcclCalls:
    """Times the calls over one communicator.

    Args:
        logger: where the rows go.
        identity: the communicator's name and counts.
        device_index: the number of its device.
    """

    def __init__(self, logger: TimingLogger, identity: OperationCounts, device_index: int) -> None:
        self.identity = identity
        self._logger = logger
        self._device_index = device_index
        self._streams: dict[int, torch.Stream] = {}
        logger.add_group(identity, identity.name)

    def time(
        self,
        call: Callable[[], T],
        operation: str,
        size_bytes: int | None,
        peer: int | None,
        collective: bool,
        stream_handle: int,
    ) -> T:
        """Make ``call``, and record what it queues in the stream with this handle.

        Inside an NCCL group the work is queued when the group ends, and so ends the row.

        Raises:
            BaseException: whatever ``call`` raises; the row says so, and a collective has no number then.
        """
        span = None
        with suppress(Exception):  # of the timing: the call is made all the same
            span = self._begin(operation, size_bytes, peer, stream_handle)
        seq = self.identity.next_collective() if collective else None
        if span is not None:
            span.seq = seq
        try:
            result = call()
        except BaseException as error:
            if collective:
                self.identity.take_back(error)
            if span is not None:
                span.seq = None
                end(span, type(error))
            raise
        if span is None:
            self._count_message(operation, peer)
            return result
        span.seq = seq if collective else self._count_message(operation, peer)
        if not OPEN_GROUPS.hold(span):
            end(span, None)
        return result

    def _begin(
        self, operation: str, size_bytes: int | None, peer: int | None, stream_handle: int
    ) -> Span | None:
        if not self._logger.recording:
            return None
        stream = self._streams.get(stream_handle) or self._found_stream(stream_handle)
        columns = operation, size_bytes, None, self.identity.name, self.identity.size, peer
        if stream is None:
            span: Span = self._logger.begin_operation(Span, *columns)
        else:
            span = self._logger.begin_operation(DeviceSpan, *columns)
            span.stream = stream
            span.interval = open_interval(stream)
        span.start_ns = perf_counter_ns()
        span.leave_running()
        return span

    def _found_stream(self, handle: int) -> torch.Stream | None:
        stream = stream_of_handle(handle, self._device_index)
        if stream is not None:
            self._streams[handle] = stream
        return stream

    def _count_message(self, operation: str, peer: int | None) -> int | None:
        if peer is None or operation not in ("SEND", "RECV"):
            return None
        counts = self.identity
        return counts.next_sent(peer) if operation == "SEND" else counts.next_received(peer)
