"""``TimedWork``: a handle on a timed operation that notices when somebody waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from time import perf_counter_ns
from typing import Any

import torch
import torch.distributed as dist

from allreduce_instrumentation.torch_distributed._operations import (
    DeviceOperation,
    GroupOperation,
    HostOperation,
    Nccl2Operation,
)
from allreduce_instrumentation.torch_distributed._torch_versions import leave_uncompiled
from timing_logger.recording.autograd_threads import NO_PASS


class TimedWork(dist.Work):
    """The ``Work`` that a timed group returns for an operation under way, whose end a future tells.

    All methods and attributes but ``wait`` and ``get_future`` are those of the backend's own ``Work``,
    errors included.

    Attributes:
        untimed: the backend's own ``Work``.
    """

    __slots__ = ("_operation", "untimed")

    untimed: dist.Work
    _operation: GroupOperation

    def wait(self, *args: timedelta, **kwargs: timedelta) -> bool:
        if args or kwargs:
            return self._operation.wait(self.untimed, *args, **kwargs)
        return self._operation.wait(self.untimed)

    def get_future(self) -> torch.futures.Future[Any]:
        if isinstance(self._operation, Nccl2Operation):
            return self._operation.get_future(self.untimed)
        future = self.untimed.get_future()
        if self._operation.goes_on:
            self._end_by(future)
            note_use_in_backward(self._operation, future)
        return future

    def _end_by(self, future: torch.futures.Future[Any]) -> None:
        """Have the operation end by ``future``, which the caller may keep when it drops this handle."""

    def __getattr__(self, name: str) -> Any:
        if name in ("untimed", "_operation", "_has_future"):  # not set yet: looking it up here would recurse
            raise AttributeError(name)
        return getattr(self.untimed, name)


class UntoldWork(TimedWork):
    """A handle on an operation whose end no future tells as yet: it may end with the wait, or be lost."""

    __slots__ = ("_has_future",)

    _has_future: bool

    def _end_by(self, future: torch.futures.Future[Any]) -> None:
        if not self._has_future:
            self._has_future = True
            self._operation.end_by(future)

    def __del__(self) -> None:
        if not getattr(self, "_has_future", True):  # not set if the construction was interrupted
            self._operation.lose()


def timed_work(work: dist.Work, operation: GroupOperation, has_future: bool) -> TimedWork:
    """Return a handle on ``operation``.

    Args:
        work: the backend's own ``Work``.
        operation: the operation that it stands for.
        has_future: whether a future will tell the operation's end, even if nobody waits.
    """
    # Not by an __init__ in Python, which would double the cost.
    if has_future:
        handle = TimedWork()
    else:
        handle = UntoldWork()
        handle._has_future = False
    handle.untimed = work
    handle._operation = operation
    return handle


def asking_the_untimed(kind: type, name: str) -> Callable[..., Any]:
    """Return a method of a timed form of torch's class ``kind`` that calls the one of what is timed."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.untimed, name)(*args, **kwargs)

    method.__name__, method.__qualname__ = name, f"Timed{kind.__name__}.{name}"
    method.__doc__ = getattr(kind, name).__doc__
    return method


_LEFT_OUT = {*vars(TimedWork), "unbox", "_pybind11_conduit_v1_"}
for _name in dir(dist.Work):
    if _name not in _LEFT_OUT and not _name.startswith("__"):
        setattr(TimedWork, _name, asking_the_untimed(dist.Work, _name))

leave_uncompiled(TimedWork)
leave_uncompiled(UntoldWork)


# -- times the wait at the end of a backward pass for the operations that are still running --------------
# ``DistributedDataParallel`` takes the future of each bucket and waits for all futures in C++, in the order
# of their issue, when the whole backward pass is done. Python code cannot see when that wait begins. But
# the autograd engine runs the callbacks of a pass in the order in which they were queued: one that is
# queued when the first future is taken runs just before the wait.


_passes = threading.local()


def note_use_in_backward(operation: GroupOperation, future: torch.futures.Future[object]) -> None:
    """Note that the future of ``operation`` was taken; a backward pass will wait for it at its end.

    Does nothing outside of a backward pass.
    """
    number = torch._C._current_graph_task_id()
    if number == NO_PASS:
        return
    current: _BackwardPass | None = getattr(_passes, "current", None)
    if current is None or current.number != number:
        current = _passes.current = _BackwardPass(number)
        inner: _BackwardPass | None = vars(_passes).pop("inner", None)
        if inner is not None:
            current.take_over(inner)
        torch.autograd.Variable._execution_engine.queue_callback(current.finish)
    current.add(operation, future)


class _BackwardPass:
    """One backward pass of the autograd engine, with the operations that it will wait for, in their order."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._on_host: list[HostOperation] = []
        self._in_streams: list[tuple[DeviceOperation, torch.futures.Future[object]]] = []

    def add(self, operation: GroupOperation, future: torch.futures.Future[object]) -> None:
        if isinstance(operation, DeviceOperation):
            self._in_streams.append((operation, future))
        elif isinstance(operation, HostOperation):
            self._on_host.append(operation)

    def take_over(self, inner: _BackwardPass) -> None:
        """Take over the operations of the nested pass ``inner``, which this pass waits for at its end."""
        self._in_streams += inner._in_streams
        self._on_host += inner._on_host

    def finish(self) -> None:
        """Begin the wait of the calling thread, or of its stream: all gradients are computed."""
        _passes.current = None
        if torch._C._current_autograd_node() is not None:  # a nested pass: the outer one goes on
            _passes.inner = self
            return
        blocked_from_ns, behind = perf_counter_ns(), None
        for operation in self._on_host:
            operation.block_from(blocked_from_ns, behind)
            behind = operation
        for in_stream, future in self._in_streams:
            _make_stream_wait(in_stream, future)


def _make_stream_wait(operation: DeviceOperation, future: torch.futures.Future[object]) -> None:
    """Make the current stream wait for ``future`` between two events, just before DDP does the same."""
    try:
        with operation.wait_span():
            future.wait()
    except Exception:
        pass  # DDP's own wait raises the same error
