"""Issuing an operation: counted always, named and timed on the iterations that are recorded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from allreduce_instrumentation.process_group._layer_names import (
    ddp_under_construction,
    fsdp_layer,
)
from allreduce_instrumentation.process_group._methods import (
    METHODS,
    Arguments,
    Keywords,
    Method,
    device_type,
    first_tensor,
    goes_on,
)
from allreduce_instrumentation.process_group._operations import (
    CoalescedOperations,
    DeviceOperation,
    HostOperation,
    Operation,
    UnrecordedOperation,
)
from allreduce_instrumentation.process_group._timing import GroupTiming
from allreduce_instrumentation.process_group._works import TimedWork
from timing_logger._span import NO_SPAN, Span


def issue(
    timing: GroupTiming, name: str, call: Callable[..., Any], args: Arguments, kwargs: dict[str, Any]
) -> Any:
    """Make a call of a group's method ``name``, and time what it begins.

    Args:
        call: the untimed group's method.

    Returns:
        What ``call`` returns, inside a :class:`TimedWork` if the iteration is recorded.

    Raises:
        Exception: whatever ``call`` raises; the row says so, and the operation has no number.
    """
    method = METHODS[name]
    buffer = method.buffer(args, kwargs)
    if _is_meta(buffer):  # nothing is sent
        return call(*args, **kwargs)
    if name == "allgather":
        _look_for_ddp(timing)
    recording = timing.logger.recording
    operation = _begin(timing, method, buffer, args, kwargs) if recording else None
    if operation is None:
        work = call(*args, **kwargs)
        _count(timing, method, args, kwargs)
        return work if name != "recv_anysource" else _only_counted(timing, work)
    try:
        work = call(*args, **kwargs)
    except BaseException as error:
        operation.end(type(error))
        raise
    operation.span.seq = _count(timing, method, args, kwargs)
    if name == "recv_anysource" and isinstance(operation, HostOperation):
        operation.learn = partial(_learn_source, timing, operation.span, work)
    if timing.batch is not None:  # it ends when everything in the coalesced call does
        timing.batch.append(operation)
        return work
    if timing.backend_durations is not None:
        timing.backend_durations.note(operation)
    return _handle(timing, name, operation, work)


def start_coalescing(timing: GroupTiming, call: Callable[[], None]) -> None:
    """Make the backend's call after which it collects operations instead of working on each.

    torch ends nothing where an exception leaves the block in between: the backend collects on, what is
    called alone as well, and drops it here. Nobody will see those end.
    """
    call()
    for abandoned in timing.batch or ():
        abandoned.lose()
    timing.batch = []


def end_coalescing(timing: GroupTiming, call: Callable[[], Any]) -> Any:
    """Make the backend's call that sends it to work on what it collected; they all end together.

    Returns:
        What ``call`` returns, inside a :class:`TimedWork` if any of the operations is recorded.
    """
    operations, timing.batch = timing.batch, None
    work = call()
    if not operations:
        return work
    return _handle(timing, "_end_coalescing", CoalescedOperations(operations), work)


def monitored_barrier(timing: GroupTiming, call: Callable[[], None]) -> None:
    """gloo's barrier that names the ranks which did not come; it has no work to wait for."""
    with timing.logger.record_mpi_operation(
        "BARRIER", 0, group=timing.identity.name, group_size=timing.identity.size,
        seq=timing.identity.next_collective(),
    ):  # fmt: skip
        call()


def _begin(
    timing: GroupTiming, method: Method, buffer: Any, args: Arguments, kwargs: Keywords
) -> HostOperation | DeviceOperation | None:
    """The row that begins now; None if there is to be none: the logger is closed, or a graph is captured."""
    identity = timing.identity
    options = method.given_options(args, kwargs)
    in_background = goes_on(options)
    try:
        operation = method.operation_of(args, kwargs)
        size = method.sent_bytes(buffer, args, identity.size)
        layer = _layer(timing, method, buffer)
        peer = method.root_of(options, kwargs) if method.peer is None else method.peer_of(args, kwargs)
        in_stream = timing.has_streams and timing.in_stream(device_type(buffer, options))
    except Exception:  # odd subclasses of Tensor may not answer; the call itself may work with them
        operation, size, layer, peer, in_stream = method.operation, None, "", None, timing.in_stream(None)
    record = timing.logger.record_device_operation if in_stream else timing.logger.record_mpi_operation
    span: Any = record(
        "I" + operation if in_background else operation, size, layer or None,
        group=identity.name, group_size=identity.size, peer=peer,
    )  # fmt: skip
    if span is NO_SPAN:
        return None
    if not in_stream:
        return HostOperation(span, in_background)
    on_device = DeviceOperation(timing.logger, span, in_background)
    return None if on_device.captured else on_device


def _handle(timing: GroupTiming, name: str, operation: Operation, work: Any) -> Any:
    """What the caller gets to wait for."""
    if not isinstance(work, dist.Work):  # the backend was done on return
        operation.end(None)
        return work
    has_future = operation.goes_on and timing.gives_future(name) and _may_use_future(operation)
    if has_future:
        try:
            future = work.get_future()
        except RuntimeError:
            timing.note_no_future(name)
            has_future = False
        else:
            operation.end_by(future)
    return TimedWork(work, operation, has_future=has_future)


def _may_use_future(operation: Operation) -> bool:
    """On a device, a callback makes its outputs stay with one more stream: memory that is given back early
    could not be used again at once. DDP's buckets are never given back; others end with their wait.
    """
    return isinstance(operation, HostOperation) or torch._C._current_graph_task_id() != -1


def _layer(timing: GroupTiming, method: Method, buffer: Any) -> str:
    """The part of the model that it is for; ``""`` if unknown, or if the caller's label says it."""
    if timing.logger.labelled:
        return ""
    if method.operation == "ALLREDUCE":
        tensor = first_tensor(buffer)
        bucket = "" if tensor is None else timing.ddp.layer(tensor.numel())
        if bucket:
            return bucket
    return fsdp_layer()


def _count(timing: GroupTiming, method: Method, args: Arguments, kwargs: Keywords) -> int | None:
    if method.operation not in ("SEND", "RECV"):
        return timing.identity.next_collective()
    peer = method.peer_of(args, kwargs)
    if peer is None:  # known when it is complete
        return None
    count = timing.identity.next_sent if method.operation == "SEND" else timing.identity.next_received
    return count(peer)


def _is_meta(buffer: Any) -> bool:
    tensor = first_tensor(buffer)
    return tensor is not None and bool(tensor.is_meta)


def _only_counted(timing: GroupTiming, work: Any) -> TimedWork:
    """A message that is not recorded, and whose number only its sender's rank will tell."""
    learn = partial(_learn_source, timing, Span(), work)
    return TimedWork(work, UnrecordedOperation(learn), has_future=False)


def _learn_source(timing: GroupTiming, span: Span, work: dist.Work) -> None:
    span.peer = work._source_rank()
    span.seq = timing.identity.next_received(span.peer)


def _look_for_ddp(timing: GroupTiming) -> None:
    model = ddp_under_construction()
    if model is not None:
        timing.ddp.add(model)
