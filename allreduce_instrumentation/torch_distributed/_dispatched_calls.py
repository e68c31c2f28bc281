"""Times the calls that torch issues in C++: DDP's reducer, functional collectives, compiled graphs.

Since version 2.14 torch's dispatcher calls hooks before and after it issues an operation over a group,
whoever asked for it. A hook is told what is sent, and afterwards the ``Work``; who waits for that it does
not see.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import torch.distributed as dist
from torch._C import _distributed_c10d as c10d_in_c

from allreduce_instrumentation.torch_distributed._group_timing import GroupTiming
from allreduce_instrumentation.torch_distributed._issue import (
    Begun,
    begin,
    future_of,
    is_in_the_stream,
    layer_of,
    look_for_ddp,
    may_use_future,
    refuse,
)
from allreduce_instrumentation.torch_distributed._methods import METHODS
from allreduce_instrumentation.torch_distributed._operations import Nccl2Operation
from allreduce_instrumentation.torch_distributed._python_calls import in_timed_call
from allreduce_instrumentation.torch_distributed._timed_work import note_use_in_backward
from allreduce_instrumentation.torch_distributed._torch_versions import leave_uncompiled
from timing_logger.recording.autograd_threads import called_by_the_engine

AVAILABLE = hasattr(dist.ProcessGroup, "register_pre_hook")
"""Whether this torch has the hooks."""

_HOOK_ID = int.from_bytes(b"timing", "big")  # a group has one hook of each number; the latest one stays

_METHOD_NAMES = {
    "ALLGATHER": "allgather",
    "ALLGATHER_BASE": "_allgather_base",
    "ALLGATHER_COALESCED": "allgather_coalesced",
    "ALLGATHER_INTO_TENSOR_COALESCED": "allgather_into_tensor_coalesced",
    "ALLREDUCE": "allreduce",
    "ALLREDUCE_COALESCED": "allreduce_coalesced",
    "ALLTOALL": "alltoall",
    "ALLTOALL_BASE": "alltoall_base",
    "BARRIER": "barrier",
    "BROADCAST": "broadcast",
    "GATHER": "gather",
    "RECV": "recv",
    "REDUCE": "reduce",
    "REDUCE_SCATTER": "reduce_scatter",
    "REDUCE_SCATTER_BASE": "_reduce_scatter_base",
    "REDUCE_SCATTER_TENSOR_COALESCED": "reduce_scatter_tensor_coalesced",
    "SCATTER": "scatter",
    "SEND": "send",
}
"""The method that asks for an operation, by the dispatcher's name; other names are no communication."""


class DispatchedCalls:
    """The operations over one group that no call from Python asked for, as rows.

    Args:
        timing: how the group is timed.
    """

    def __init__(self, timing: GroupTiming) -> None:
        self._timing = timing
        self._of_thread = threading.local()
        names = vars(c10d_in_c)["HookOpName"].__members__
        self._methods = {names[name]: method for name, method in _METHOD_NAMES.items() if name in names}

    def observe(self, group: dist.ProcessGroup) -> None:
        """Have torch tell of the operations over ``group``, which is the one that the timing is for."""
        group.register_pre_hook(_HOOK_ID, self._before)  # type: ignore[attr-defined]
        group.register_post_hook(_HOOK_ID, self._after)  # type: ignore[attr-defined]

    def _before(self, call: Any) -> None:
        """Begin the row of an operation that is about to be issued; ``call`` is torch's ``PreHookArgs``."""
        by_engine = called_by_the_engine()
        try:
            name = self._methods.get(call.name)
            if name is not None and not in_timed_call(self._timing):
                self._give_up(vars(self._of_thread).pop("issued", None))
                self._of_thread.issued = self._begun(call, name, by_engine)
        except Exception:
            pass  # the user's call would raise it

    def _after(self, call: Any) -> None:
        """Learn how the operation's end will be known; ``call`` is torch's ``PostHookArgs``."""
        try:
            issued: _Issued | None = vars(self._of_thread).pop("issued", None)
            if issued is not None and issued.op_id == call.op_id:
                self._note(issued, call.work)
        except Exception:
            pass  # the user's call would raise it

    def _give_up(self, issued: _Issued | None) -> None:
        """End the row of a call for which there was no second hook: torch raised an error instead."""
        if issued is None or issued.operation is None:
            return
        if issued.operation.seq == self._timing.identity.collectives - 1:
            refuse(self._timing, issued.operation, RuntimeError())
        else:  # later collectives were counted on from it
            issued.operation.end(RuntimeError)

    def _begun(self, call: Any, name: str, by_engine: bool) -> _Issued | None:
        timing, method = self._timing, METHODS[name]
        outputs = call.output_tensors
        sent = outputs if name == "recv" else call.input_tensors
        tensor = next(iter(sent or outputs), None)
        if tensor is not None and tensor.is_meta:  # it has no data, so nothing is sent
            return None
        if name == "allgather":
            look_for_ddp(timing)
        issued = _Issued(call.op_id, name, call.root if call.root >= 0 else None, None, False)
        if not timing.logger.recording:
            return issued
        size = method.sent_bytes(sent, (outputs,), timing.identity.size)
        columns = method.operation, size, layer_of(timing, method, tensor), issued.peer
        device = None if tensor is None else tensor.device
        operation = begin(timing, columns, call.async_op, timing.in_stream(device), device)
        if operation is not None and method.collective:  # before the call, which may hang
            operation.seq = timing.identity.next_collective()
        of_reducer = by_engine and call.async_op and name == "allreduce" and timing.ddp.known
        return issued._replace(operation=operation, of_reducer=of_reducer)

    def _note(self, issued: _Issued, work: dist.Work | None) -> None:
        operation = issued.operation
        if operation is None:  # without a row it counts all the same
            issued.number_in(self._timing)
            return
        if operation.seq is None:
            operation.seq = issued.number_in(self._timing)
        if self._timing.batch is not None:  # it ends together with the whole coalesced call
            self._timing.batch.append(operation)
        elif work is None or is_in_the_stream(operation):  # or it was complete on return
            operation.end(None)
        else:
            self._end_with(issued, operation, work)

    def _end_with(self, issued: _Issued, operation: Begun, work: dist.Work) -> None:
        if issued.of_reducer and isinstance(operation, Nccl2Operation):
            operation.get_future(work)  # as the reducer does next: that is where the stream waits
            return
        future = future_of(self._timing, issued.name, work) if may_use_future(operation) else None
        if future is None:  # nobody will tell the end
            operation.lose()
            return
        operation.end_by(future)
        if issued.of_reducer:
            note_use_in_backward(operation, future)


class _Issued(NamedTuple):
    """An operation between its two hooks.

    Attributes:
        op_id: torch's number of it.
        name: the method that asks for such operations.
        peer: the rank in the group of the root, or the other rank of a message; None if there is none.
        operation: its row; None if it has none.
        of_reducer: whether it is a bucket of DDP, which a backward pass will wait for at its end.
    """

    op_id: int
    name: str
    peer: int | None
    operation: Begun | None
    of_reducer: bool

    def number_in(self, timing: GroupTiming) -> int | None:
        """Return the sequence number; None for a message whose sender is not known yet."""
        counts = timing.identity
        if METHODS[self.name].collective:
            return counts.next_collective()
        if self.peer is None:
            return None
        return counts.next_sent(self.peer) if self.name == "send" else counts.next_received(self.peer)


def forget(group: dist.ProcessGroup) -> None:
    """Have torch tell no more of the operations over ``group``."""
    group.unregister_pre_hook(_HOOK_ID)  # type: ignore[attr-defined]
    group.unregister_post_hook(_HOOK_ID)  # type: ignore[attr-defined]


leave_uncompiled(DispatchedCalls)
