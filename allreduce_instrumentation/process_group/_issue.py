"""Issuing an operation: counted always, named and timed on the iterations that are recorded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
import torch.distributed as dist

from allreduce_instrumentation.process_group._backward_waits import note_use_in_backward
from allreduce_instrumentation.process_group._layer_names import (
    ddp_under_construction,
    fsdp_is_loaded,
    fsdp_layer,
)
from allreduce_instrumentation.process_group._methods import (
    METHODS,
    Arguments,
    Keywords,
    Method,
    device_of,
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
from allreduce_instrumentation.process_group._works import timed_work
from timing_logger.recording.autograd_threads import NO_PASS
from timing_logger.recording.spans import Span


def issue(
    timing: GroupTiming,
    name: str,
    untimed: Callable[..., Any],
    group: dist.ProcessGroup,
    args: Arguments,
    kwargs: Keywords,
) -> Any:
    """Make a call of a group's method ``name``, and time what it begins.

    Args:
        untimed: the method of torch that works.
        group: the group whose method it is.

    Returns:
        What ``untimed`` returns, inside a :class:`TimedWork` if it goes on and the iteration is recorded.

    Raises:
        Exception: whatever ``untimed`` raises; the row says so, and the operation has no number.
    """
    method = METHODS[name]
    buffer, tensor, options = method.given(args, kwargs)
    if tensor is not None and tensor.is_meta:  # nothing is sent
        return untimed(group, *args, **kwargs)
    if name == "allgather":
        _look_for_ddp(timing)
    in_background = goes_on(options)
    if not timing.logger.recording:
        return _issue_unrecorded(timing, name, untimed, group, args, kwargs, in_background)
    columns = _columns(timing, method, buffer, tensor, options, args, kwargs)
    device = device_of(tensor, options)
    in_stream = timing.has_streams and timing.in_stream(device)
    if not (in_background or in_stream or timing.batch is not None):
        call = partial(untimed, **kwargs) if kwargs else untimed
        return timing.logger.time_call(*columns, timing.identity, dist.Work, call, (group, *args))
    operation = _begin(timing, columns, in_background, in_stream, device)
    if operation is None:
        return _issue_unrecorded(timing, name, untimed, group, args, kwargs, in_background)
    if method.collective:  # before the call, which may hang
        operation.seq = timing.identity.next_collective()
    try:
        work = untimed(group, *args, **kwargs)
    except BaseException as error:
        _refuse(timing, operation, error)
        raise
    if not method.collective:
        operation.seq = _count_message(timing, method, args, kwargs)
    if name == "recv_anysource" and isinstance(operation, HostOperation):
        operation.learn = partial(_learn_source, timing, operation, work)
    if timing.batch is not None:  # it ends when everything in the coalesced call does
        timing.batch.append(operation)
        return work
    if timing.backend_durations is not None:
        timing.backend_durations.note(operation)
    return _handle(timing, name, operation, work)


def issue_in_background(
    timing: GroupTiming,
    name: str,
    columns: Columns,
    tensor: torch.Tensor,
    untimed: Callable[..., Any],
    group: dist.ProcessGroup,
    args: Arguments,
    is_bucket: bool,
) -> Any:
    """The same of a collective that goes on, of which ``columns`` are known, while the iteration is recorded.

    Args:
        is_bucket: DDP's reducer asks for it. It takes the future of what it gets, and nothing else: it gets
            the backend's own, which saves a handle.
    """
    in_stream = timing.has_streams and timing.in_stream(tensor.device)
    operation = _begin(timing, columns, True, in_stream, tensor.device)
    if operation is None:
        return _issue_unrecorded(timing, name, untimed, group, args, {}, True)
    operation.seq = timing.identity.next_collective()
    try:
        work = untimed(group, *args)
    except BaseException as error:
        _refuse(timing, operation, error)
        raise
    if timing.backend_durations is not None:
        timing.backend_durations.note(operation)
    future = _future_of(timing, name, work) if is_bucket and isinstance(work, dist.Work) else None
    if future is None:
        return _handle(timing, name, operation, work)
    operation.end_by(future)
    note_use_in_backward(operation, future)
    return work


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
    together = CoalescedOperations(operations)
    if isinstance(work, dist.Work):
        # Not asked for its future: NCCL's has none in torch 2.8, and the process crashes when that is used.
        return timed_work(work, together, has_future=False)
    together.end(None)
    return work


def monitored_barrier(timing: GroupTiming, call: Callable[[], None]) -> None:
    """gloo's barrier that names the ranks which did not come; it has no work to wait for."""
    with timing.logger.record_mpi_operation(
        "BARRIER", 0, group=timing.identity.name, group_size=timing.identity.size,
        seq=timing.identity.next_collective(),
    ):  # fmt: skip
        call()


def _issue_unrecorded(
    timing: GroupTiming,
    name: str,
    untimed: Callable[..., Any],
    group: dist.ProcessGroup,
    args: Arguments,
    kwargs: Keywords,
    in_background: bool,
) -> Any:
    method = METHODS[name]
    call = partial(untimed, **kwargs) if kwargs else untimed
    if not method.collective:
        work = call(group, *args)
        _count_message(timing, method, args, kwargs)
        return work if name != "recv_anysource" else _only_counted(timing, work)
    if timing.logger.enabled and not (in_background or timing.has_streams or timing.batch is not None):
        return timing.logger.time_call(
            method.operation, None, None, None, timing.identity, dist.Work, call, (group, *args)
        )
    timing.identity.next_collective()
    try:
        return call(group, *args)
    except BaseException as error:
        timing.identity.take_back(error)
        raise


def _refuse(timing: GroupTiming, operation: HostOperation | DeviceOperation, error: BaseException) -> None:
    """The call raised: it counts for nothing, as a rank that makes it again still counts like its peers."""
    if operation.seq is not None:
        timing.identity.take_back(error)
        operation.seq = None
    operation.end(type(error))


Columns: TypeAlias = "tuple[str, int | None, str | None, int | None]"
"""Operation, bytes sent, layer, peer."""


def _columns(
    timing: GroupTiming,
    method: Method,
    buffer: Any,
    tensor: torch.Tensor | None,
    options: Any,
    args: Arguments,
    kwargs: Keywords,
) -> Columns:
    try:
        operation = method.operation if method.splits is None else method.operation_of(args, kwargs)
        size = method.sent_bytes(buffer, args, timing.identity.size)
        layer = layer_of(timing, method, tensor)
        peer = None if method.among_equals else method.other_rank(options, args, kwargs)
    except Exception:  # odd subclasses of Tensor may not answer; the call itself may work with them
        operation, size, layer, peer = method.operation, None, None, None
    return operation, size, layer, peer


def _begin(
    timing: GroupTiming,
    columns: Columns,
    in_background: bool,
    in_stream: bool,
    device: torch.device | None,
) -> HostOperation | DeviceOperation | None:
    """The row that begins now; None if there is to be none, as a graph is captured."""
    logger, identity = timing.logger, timing.identity
    operation, size, layer, peer = columns
    row = "I" + operation if in_background else operation, size, layer, identity.name, identity.size, peer
    if in_stream:
        on_device = logger.begin_operation(DeviceOperation, *row)
        return on_device if on_device.begin(in_background, logger, device) else None
    on_host = logger.begin_operation(HostOperation, *row)
    on_host.begin(in_background, logger)
    return on_host


def _handle(timing: GroupTiming, name: str, operation: Operation, work: Any) -> Any:
    """What the caller gets to wait for."""
    if not isinstance(work, dist.Work):  # the backend was done on return
        operation.end(None)
        return work
    may_ask = operation.goes_on and _may_use_future(operation)
    future = _future_of(timing, name, work) if may_ask else None
    if future is not None:
        operation.end_by(future)
    return timed_work(work, operation, future is not None)


def _future_of(timing: GroupTiming, name: str, work: dist.Work) -> torch.futures.Future[Any] | None:
    """What tells the end of ``work``; None where the backend's method ``name`` gives none."""
    if timing.gives_future(name):
        try:
            return work.get_future()
        except RuntimeError:
            timing.note_no_future(name)
    return None


def _may_use_future(operation: Operation) -> bool:
    """On a device, a callback makes its outputs stay with one more stream: memory that is given back early
    could not be used again at once. DDP's buckets are never given back; others end with their wait.
    """
    return isinstance(operation, HostOperation) or torch._C._current_graph_task_id() != NO_PASS


def layer_of(timing: GroupTiming, method: Method, tensor: torch.Tensor | None) -> str | None:
    """The part of the model that it is for; None if unknown, or if the caller's label says it."""
    if not (timing.ddp.known or fsdp_is_loaded()) or timing.logger.labelled:
        return None
    if timing.ddp.known and method.operation == "ALLREDUCE" and tensor is not None:
        bucket = timing.ddp.layer(tensor.numel())
        if bucket:
            return bucket
    return fsdp_layer() or None


def _count_message(timing: GroupTiming, method: Method, args: Arguments, kwargs: Keywords) -> int | None:
    peer = method.peer_of(args, kwargs)
    if peer is None:  # known when it is complete
        return None
    count = timing.identity.next_sent if method.operation == "SEND" else timing.identity.next_received
    return count(peer)


def _only_counted(timing: GroupTiming, work: Any) -> dist.Work:
    """A message that is not recorded, and whose number only its sender's rank will tell."""
    learn = partial(_learn_source, timing, Span(), work)
    return timed_work(work, UnrecordedOperation(learn), has_future=False)


def _learn_source(timing: GroupTiming, span: Span, work: dist.Work) -> None:
    span.peer = work._source_rank()
    span.seq = timing.identity.next_received(span.peer)


def _look_for_ddp(timing: GroupTiming) -> None:
    model = ddp_under_construction()
    if model is not None:
        timing.ddp.add(model)
