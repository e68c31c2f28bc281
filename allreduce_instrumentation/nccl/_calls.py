"""How a call of NCCL becomes a row: between two events in the stream that it is given.

NCCL only queues the work, so the time that a call takes says nothing of it. Where torch does not use the
device there are no events, and the row has no duration.
"""

from __future__ import annotations

import functools
import math
import operator
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import perf_counter_ns
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from allreduce_instrumentation._operation_counts import OperationCounts, as_rank
from timing_logger.recording.cores.chosen import Span
from timing_logger.recording.device.intervals import open_interval
from timing_logger.recording.device.span import DeviceSpan, stream_of_handle
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import UNRESOLVED

if TYPE_CHECKING:
    import torch

Arguments = tuple[Any, ...]
Keywords = Mapping[str, Any]


class NcclMethod(NamedTuple):
    """One method that communicates.

    Attributes:
        operation: the operation's name in the rows.
        parameters: the names of the parameters that can be given by position, in their order.
        sends: the parameter whose bytes are the message's; empty if there are none.
        root: the parameter that names the root; empty if there is none.
        peer: the parameter that names the other rank of a message; empty if there is none.
        without_root: the operation's name if no root is given; empty if there must be one.
        collective: whether every rank takes part.
    """

    operation: str
    parameters: tuple[str, ...]
    sends: str = ""
    root: str = ""
    peer: str = ""
    without_root: str = ""
    collective: bool = True

    def given(self, name: str, args: Arguments, kwargs: Keywords) -> Any:
        """Return the argument for the parameter ``name``; None if there is none."""
        at = self.parameters.index(name) if name in self.parameters else len(args)
        return args[at] if at < len(args) else kwargs.get(name)

    def other_rank(self, args: Arguments, kwargs: Keywords) -> int | None:
        """Return the root, or the other rank of a message; None if there is neither."""
        named = self.root or self.peer
        return as_rank(self.given(named, args, kwargs)) if named else None

    def sent_bytes(self, args: Arguments, kwargs: Keywords, rank: int, size: int) -> int | None:
        """Return the bytes of the send buffer; None if they are unknown.

        Of a broadcast and a scatter only the root has one: other ranks state what the root's has.

        Args:
            args, kwargs: the arguments of the call.
            rank: this rank.
            size: the number of ranks.
        """
        if not self.sends:
            return 0
        if self.operation in ("BCAST", "SCATTER") and self.other_rank(args, kwargs) != rank:
            received = bytes_of(self.given("recvbuf", args, kwargs))
            return None if received is None else received * (size if self.operation == "SCATTER" else 1)
        return bytes_of(self.given(self.sends, args, kwargs))


def bytes_of(buffer: Any) -> int | None:
    """Return the bytes of a tensor, an array, or a ``cuda.core.Buffer``; None if unknown."""
    try:
        nbytes = getattr(buffer, "nbytes", None)
        if nbytes is not None:
            return int(nbytes)
        described = getattr(buffer, "__cuda_array_interface__", None)
        if described is not None:
            return int(math.prod(described["shape"])) * int(described["typestr"][2:])
        return operator.index(buffer.size)  # of a Buffer, in bytes
    except Exception:  # NCCL's own error comes from the call itself
        return None


_BOTH = ("sendbuf", "recvbuf")
_REDUCED = (*_BOTH, "op")

METHODS: dict[str, NcclMethod] = {
    "allreduce": NcclMethod("ALLREDUCE", _REDUCED, "sendbuf"),
    "broadcast": NcclMethod("BCAST", (*_BOTH, "root"), "sendbuf", root="root"),
    "reduce": NcclMethod("REDUCE", (*_REDUCED, "root"), "sendbuf", root="root", without_root="ALLREDUCE"),
    "allgather": NcclMethod("ALLGATHER", _BOTH, "sendbuf"),
    "gather": NcclMethod("GATHER", (*_BOTH, "root"), "sendbuf", root="root", without_root="ALLGATHER"),
    "scatter": NcclMethod("SCATTER", (*_BOTH, "root"), "sendbuf", root="root"),
    "reduce_scatter": NcclMethod("REDUCE_SCATTER", _REDUCED, "sendbuf"),
    "alltoall": NcclMethod("ALLTOALL", _BOTH, "sendbuf"),
    "send": NcclMethod("SEND", ("sendbuf", "peer"), "sendbuf", peer="peer", collective=False),
    "recv": NcclMethod("RECV", ("recvbuf", "peer"), "recvbuf", peer="peer", collective=False),
    "put_signal": NcclMethod("PUT", ("local_buffer", "peer"), "local_buffer", peer="peer", collective=False),
    "signal": NcclMethod("SIGNAL", ("peer",), peer="peer", collective=False),
    "wait_signal": NcclMethod("WAIT_SIGNAL", ("descs",), collective=False),
}
"""nccl4py's methods that communicate, by name; not every version has all of them."""


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
