"""Times the calls over groups that exist already: those from Python, and those that torch issues in C++.

Calls from Python go through the methods of a process group. The methods of torch's class are replaced, and
those of classes that are written in Python, which torch's C++ code calls as well. A group that is shut down
or aborted first lets the callbacks end with which its operations are timed.

In C++ torch issues the operations of DDP's reducer, functional collectives and compiled graphs. Since version
2.14 its dispatcher calls hooks before and after it issues an operation over a group, whoever asked for it. A
hook is told what is sent, and afterwards the ``Work``; who waits for that it does not see.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import torch.distributed as dist
from torch._C import _distributed_c10d as c10d_in_c

from allreduce_instrumentation.torch_distributed._group_timing import GroupTiming
from allreduce_instrumentation.torch_distributed._issue import (
    Begun,
    begin,
    end_coalescing,
    future_of,
    is_in_the_stream,
    issue,
    layer_of,
    look_for_ddp,
    may_use_future,
    monitored_barrier,
    refuse,
    start_coalescing,
)
from allreduce_instrumentation.torch_distributed._methods import METHODS, Untimed
from allreduce_instrumentation.torch_distributed._operations import Nccl2Operation
from allreduce_instrumentation.torch_distributed._timed_group import TimedProcessGroup
from allreduce_instrumentation.torch_distributed._timed_work import note_use_in_backward
from allreduce_instrumentation.torch_distributed._torch_versions import leave_uncompiled, not_compiled
from timing_logger.recording.autograd_threads import called_by_the_engine

# -- from Python --------------------------------------------------------------------------------------

TimingOf: TypeAlias = "Callable[[dist.ProcessGroup], GroupTiming | None]"
"""Returns how a group is timed; None if it is not."""

_NAMES = (*METHODS, "_start_coalescing", "_end_coalescing", "monitored_barrier", "shutdown", "abort")

_calling = threading.local()


def in_timed_call(timing: GroupTiming) -> bool:
    """Tell whether the calling thread is inside a method that times a call over the group of ``timing``."""
    return getattr(_calling, "timing", None) is timing


class TimedMethods:
    """The methods that were replaced by timed ones, until :meth:`restore`.

    Args:
        timing_of: how the group of a call is timed.
    """

    def __init__(self, timing_of: TimingOf) -> None:
        self._timing_of = timing_of
        self._untimed: dict[type[dist.ProcessGroup], dict[str, object]] = {}

    def replace(self, kind: type[dist.ProcessGroup]) -> None:
        """Replace the methods of the class ``kind``, and of the classes of groups that it derives from."""
        for each in kind.__mro__:
            if not issubclass(each, dist.ProcessGroup) or issubclass(each, TimedProcessGroup):
                continue
            if each not in self._untimed:
                # As they are stored there: getattr on the class would unbind them.
                own = {name: vars(each)[name] for name in _NAMES if name in vars(each)}
                self._untimed[each] = own
                for name in own:
                    setattr(each, name, _timed(name, getattr(each, name), self._timing_of))

    def restore(self) -> None:
        """Put the untimed methods back."""
        for kind, methods in self._untimed.items():
            for name, untimed in methods.items():
                setattr(kind, name, untimed)
        self._untimed.clear()


def _timed(name: str, untimed: Untimed, timing_of: TimingOf) -> Untimed:
    def method(self: dist.ProcessGroup, *args: Any, **kwargs: Any) -> Any:
        timing = timing_of(self)
        outer = getattr(_calling, "timing", None)
        if timing is None or timing is outer:  # a method that calls the one which it overrides is one call
            return untimed(self, *args, **kwargs)
        _calling.timing = timing
        try:
            return _call(timing, name, untimed, self, args, kwargs)
        finally:
            _calling.timing = outer

    # pybind11 takes this function for an override of the C++ method. By the name of the calling code it
    # recognises that a call from here means the C++ method itself.
    method.__code__ = method.__code__.replace(co_name=name)
    method.__name__, method.__qualname__, method.__doc__ = name, f"ProcessGroup.{name}", untimed.__doc__
    return not_compiled(method)


def _call(
    timing: GroupTiming,
    name: str,
    untimed: Untimed,
    group: dist.ProcessGroup,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    if name == "_start_coalescing":
        return start_coalescing(timing, partial(untimed, group, *args))
    if name == "_end_coalescing":
        return end_coalescing(timing, partial(untimed, group, *args))
    if name == "monitored_barrier":
        return monitored_barrier(timing, partial(untimed, group, *args, **kwargs))
    if name == "shutdown":
        timing.let_callbacks_end()
        return untimed(group)
    if name == "abort":
        untimed(group)
        return timing.let_callbacks_end()
    return issue(timing, name, untimed, group, args, kwargs)


# -- in C++ --------------------------------------------------------------------------------------------

AVAILABLE = hasattr(dist.ProcessGroup, "register_pre_hook")
"""Whether this torch has the hooks."""

_HOOK_ID = int.from_bytes(b"timing", "big")  # a group has one hook of each number; the latest one stays


class DispatchedCalls:
    """The operations over one group that no call from Python asked for, as rows.

    Args:
        timing: how the group is timed.
    """

    def __init__(self, timing: GroupTiming) -> None:
        self._timing = timing
        self._of_thread = threading.local()
        named = vars(c10d_in_c)["HookOpName"].__members__
        methods = {name.lstrip("_").upper(): name for name in METHODS}  # others are no communication
        self._methods = {member: methods[name] for name, member in named.items() if name in methods}

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
