"""Issues operations of process groups: always counts them, and times those of recorded iterations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
import torch.distributed as dist

from allreduce_instrumentation.torch_distributed._group_timing import GroupTiming
from allreduce_instrumentation.torch_distributed._layer_names import (
    ddp_under_construction,
    fsdp_is_loaded,
    fsdp_layer,
)
from allreduce_instrumentation.torch_distributed._methods import (
    IN_BACKGROUND,
    METHODS,
    Arguments,
    GroupMethod,
    Keywords,
    Sent,
    Untimed,
    device_of,
    goes_on,
)
from allreduce_instrumentation.torch_distributed._operations import (
    CoalescedOperations,
    DeviceOperation,
    GroupOperation,
    HostOperation,
    Nccl2Operation,
    UnrecordedOperation,
)
from allreduce_instrumentation.torch_distributed._timed_work import note_use_in_backward, timed_work
from timing_logger.recording.autograd_threads import NO_PASS
from timing_logger.recording.cores.chosen import Span
from timing_logger.schema.record import OK


def issue(
    timing: GroupTiming,
    name: str,
    untimed: Untimed,
    group: dist.ProcessGroup,
    args: Arguments,
    kwargs: Keywords,
) -> dist.Work | None:
    """Call method ``name`` of a group, and time the operation that it begins.

    Args:
        timing: how the group is timed.
        name: the method's name, a key of ``METHODS``.
        untimed: torch's untimed method.
        group: the group to pass to ``untimed``.
        args, kwargs: the further arguments of the call.

    Returns:
        What ``untimed`` returns; inside a :class:`~._timed_work.TimedWork` if the operation goes on after the
        call and the iteration is recorded.

    Raises:
        Exception: whatever ``untimed`` raises; the row says so, and the operation has no sequence number.
    """
    method = METHODS[name]
    buffer, tensor, options = method.given(args, kwargs)
    if tensor is not None and tensor.is_meta:  # it has no data, so nothing is sent
        return untimed(group, *args, **kwargs)
    if name == "allgather":
        look_for_ddp(timing)
    in_background = goes_on(options)
    if not timing.logger.recording:
        return _issue_unrecorded(timing, name, untimed, group, args, kwargs, in_background)
    columns = _columns(timing, method, buffer, tensor, options, args, kwargs)
    device = device_of(tensor, options)
    in_stream = timing.has_streams and timing.in_stream(device)
    call = partial(untimed, **kwargs) if kwargs else untimed
    if not (in_background or in_stream or timing.batch is not None):
        return timing.logger.time_call(*columns, timing.identity, dist.Work, call, (group, *args))
    operation, work = _begin_and_call(
        timing, columns, method.collective, in_background, in_stream, device, call, (group, *args)
    )
    if operation is None:
        return _issue_unrecorded(timing, name, untimed, group, args, kwargs, in_background)
    if not method.collective:
        operation.seq = _count_message(timing, method, args, kwargs)
    if name == "recv_anysource" and isinstance(operation, HostOperation):
        operation.learn = partial(_learn_source, timing)
    if timing.batch is not None:  # it ends together with the whole coalesced call
        timing.batch.append(operation)
        return work
    if timing.backend_durations is not None:
        timing.backend_durations.note(operation, work)
    return _handle(timing, name, operation, work)


def issue_in_background(
    timing: GroupTiming,
    name: str,
    columns: Columns,
    tensor: torch.Tensor,
    untimed: Untimed,
    args: Arguments,
    is_bucket: bool,
) -> dist.Work | None:
    """Issue a collective that goes on in the background, as :func:`issue` does, if its columns are known.

    Only on iterations that are recorded.

    Args:
        timing: how the group is timed.
        name: the method's name, a key of ``METHODS``.
        columns: operation, bytes sent, layer and peer.
        tensor: the tensor that is sent.
        untimed: torch's untimed method.
        args: its arguments, of which the group is the first.
        is_bucket: whether the call comes from DDP's reducer. The reducer only takes the future of what it
            gets, so it gets the backend's own work, which saves a handle.
    """
    device = tensor.device if timing.has_streams else None
    in_stream = device is not None and timing.in_stream(device)
    operation, work = _begin_and_call(timing, columns, True, True, in_stream, device, untimed, args)
    if operation is None:
        return _issue_unrecorded(timing, name, untimed, args[0], args[1:], {}, True)
    if timing.backend_durations is not None:
        timing.backend_durations.note(operation, work)
    if not (is_bucket and isinstance(work, dist.Work)):
        return _handle(timing, name, operation, work)
    if isinstance(operation, Nccl2Operation):
        operation.get_future(work)  # as the reducer does next: that is where the stream waits
        return work
    future = future_of(timing, name, work)
    if future is None:
        return _handle(timing, name, operation, work)
    operation.end_by(future)
    note_use_in_backward(operation, future)
    return work


def start_coalescing(timing: GroupTiming, call: Callable[[], object]) -> None:
    """Make the backend's call after which it collects operations instead of running each at once.

    After an exception in an earlier coalescing block torch does not end that block: the backend goes on
    collecting, single calls too, and drops all of them at this call. The rows of those operations say that
    their end was not seen.

    Args:
        timing: how the group is timed.
        call: the backend's call.
    """
    call()
    for abandoned in timing.batch or ():
        abandoned.lose()
    timing.batch = []


def end_coalescing(timing: GroupTiming, call: Callable[[], dist.Work | None]) -> dist.Work | None:
    """Make the backend's call that runs the collected operations, which all end together.

    Args:
        timing: how the group is timed.
        call: the backend's call.

    Returns:
        What ``call`` returns, inside a :class:`~._timed_work.TimedWork` if any of the operations is recorded.
    """
    operations, timing.batch = timing.batch, None
    work = call()
    if not operations:
        return work
    together = CoalescedOperations(operations)
    if isinstance(work, dist.Work):
        # Its future is not used: in torch 2.8 NCCL has none here, and using it crashes the process.
        return timed_work(work, together, has_future=False)
    together.end(None)
    return work


def monitored_barrier(timing: GroupTiming, call: Callable[[], object]) -> None:
    """Time gloo's ``monitored_barrier``, which names the ranks that did not come and returns no work."""
    with timing.logger.record_mpi_operation(
        "BARRIER", 0, group=timing.identity.name, group_size=timing.identity.size,
        seq=timing.identity.next_collective(),
    ):  # fmt: skip
        call()


def _issue_unrecorded(
    timing: GroupTiming,
    name: str,
    untimed: Untimed,
    group: dist.ProcessGroup,
    args: Arguments,
    kwargs: Keywords,
    in_background: bool,
) -> dist.Work | None:
    method = METHODS[name]
    if timing.backend_durations is not None:
        timing.backend_durations.collect()
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


def _begin_and_call(
    timing: GroupTiming,
    columns: Columns,
    numbered: bool,
    in_background: bool,
    in_stream: bool,
    device: torch.device | None,
    call: Untimed,
    args: Arguments,
) -> tuple[Begun | None, dist.Work | None]:
    """Begin the operation's row and make the call; the row says so if the call raises.

    Returns:
        The operation and what ``call`` returned. No operation, and nothing called, if there is to be no row.
    """
    if not in_stream:
        operation, size, layer, peer = columns
        row = IN_BACKGROUND[operation] if in_background else operation
        return timing.logger.issue_call(
            HostOperation, row, size, layer, peer, timing.identity, numbered, in_background, call, args
        )
    on_device = begin(timing, columns, in_background, in_stream, device)
    if on_device is None:
        return None, None
    if numbered:  # before the call, which may hang: its open row needs the number
        on_device.seq = timing.identity.next_collective()
    try:
        return on_device, call(*args)
    except BaseException as error:
        refuse(timing, on_device, error)
        raise


def refuse(timing: GroupTiming, operation: Begun, error: BaseException) -> None:
    """Note that the call of ``operation`` raised ``error``, and take back its sequence number.

    A rank that repeats the call then still counts like its peers.
    """
    if operation.seq is not None:
        timing.identity.take_back(error)
        operation.seq = None
    operation.end(type(error))


Begun: TypeAlias = "HostOperation | DeviceOperation"
"""An operation that was begun, and its row."""

Columns: TypeAlias = "tuple[str, int | None, str | None, int | None]"
"""The columns of a row that the call determines: operation, bytes sent, layer, peer."""


def _columns(
    timing: GroupTiming,
    method: GroupMethod,
    buffer: Sent | None,
    tensor: torch.Tensor | None,
    options: object,
    args: Arguments,
    kwargs: Keywords,
) -> Columns:
    try:
        operation = method.operation if method.splits is None else method.operation_of(args, kwargs)
        size = method.sent_bytes(buffer, args, timing.identity.size)
        layer = layer_of(timing, method, tensor)
        peer = method.other_rank(options, args, kwargs)
    except Exception:  # odd subclasses of Tensor may not answer; the call itself may work with them
        operation, size, layer, peer = method.operation, None, None, None
    return operation, size, layer, peer


def begin(
    timing: GroupTiming,
    columns: Columns,
    in_background: bool,
    in_stream: bool,
    device: torch.device | None,
) -> Begun | None:
    """Begin the operation's row; return None if there is to be none, as a graph is being captured."""
    logger, identity = timing.logger, timing.identity
    operation, size, layer, peer = columns
    name = IN_BACKGROUND[operation] if in_background else operation
    row = name, size, layer, identity.name, identity.size, peer
    if in_stream:
        on_device = logger.begin_operation(timing.on_device, *row)
        return on_device if on_device.begin(in_background, logger, device) else None
    on_host = logger.begin_operation(HostOperation, *row)
    on_host.begin(in_background, logger)
    return on_host


def _handle(
    timing: GroupTiming, name: str, operation: GroupOperation, work: dist.Work | None
) -> dist.Work | None:
    """Return what the caller gets to wait for: a timed handle on ``work``, if it is a ``Work``."""
    if not isinstance(work, dist.Work) or is_in_the_stream(operation):  # or it was complete on return
        operation.end(None)
        return work
    may_ask = operation.goes_on and may_use_future(operation)
    future = future_of(timing, name, work) if may_ask else None
    if future is not None:
        operation.end_by(future)
    return timed_work(work, operation, future is not None)


def future_of(timing: GroupTiming, name: str, work: dist.Work) -> torch.futures.Future[object] | None:
    """Return the future of ``work``; None if works of the backend's method ``name`` have none."""
    if name not in timing.without_future:
        try:
            return work.get_future()
        except RuntimeError:
            timing.without_future.add(name)
    return None


def is_in_the_stream(operation: GroupOperation) -> bool:
    """Tell whether all of ``operation`` lies in the current stream once it is issued; it may have a work."""
    return isinstance(operation, Nccl2Operation) and not operation.goes_on


def may_use_future(operation: GroupOperation) -> bool:
    """Tell whether the operation's end may be learnt from its future.

    On a device, a callback ties the outputs to one more stream, so that memory which is freed early could
    not be reused at once. That is harmless in a backward pass, as DDP's buckets are never freed; operations
    outside of one end with their wait. So do all of nccl2's: there the stream waits for who asks.
    """
    if isinstance(operation, Nccl2Operation):
        return False
    return isinstance(operation, HostOperation) or torch._C._current_graph_task_id() != NO_PASS


def layer_of(timing: GroupTiming, method: GroupMethod, tensor: torch.Tensor | None) -> str | None:
    """Return the part of the model that a collective is for; None if unknown, or if a label is in force."""
    if not (timing.ddp.known or fsdp_is_loaded()) or timing.logger.labelled:
        return None
    if timing.ddp.known and method.operation == "ALLREDUCE" and tensor is not None:
        bucket = timing.ddp.layer(tensor.numel())
        if bucket:
            return bucket
    return fsdp_layer() or None


def _count_message(timing: GroupTiming, method: GroupMethod, args: Arguments, kwargs: Keywords) -> int | None:
    peer = method.peer_of(args, kwargs)
    if peer is None:  # the sender is known only when the message has arrived
        return None
    count = timing.identity.next_sent if method.operation == "SEND" else timing.identity.next_received
    return count(peer)


def _only_counted(timing: GroupTiming, work: Any) -> dist.Work:
    """Return a handle on an unrecorded message from any rank: it is counted when its sender is known."""
    learn = partial(_learn_source, timing, Span(), work)
    return timed_work(work, UnrecordedOperation(learn), has_future=False)


def _learn_source(timing: GroupTiming, span: Span, work: Any) -> str:
    span.peer = peer = work._source_rank()
    span.seq = timing.identity.next_received(peer)
    return OK


def look_for_ddp(timing: GroupTiming) -> None:
    model = ddp_under_construction()
    if model is not None:
        timing.ddp.add(model)
