"""``TimedWork``: a handle on a timed operation that notices when somebody waits for it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from allreduce_instrumentation.process_group._backward_waits import note_use_in_backward
from allreduce_instrumentation.process_group._compilation import leave_uncompiled
from allreduce_instrumentation.process_group._operations import Nccl2Operation, Operation


class TimedWork(dist.Work):
    """The ``Work`` that a timed group returns for an operation under way, whose end a future tells.

    All methods and attributes but ``wait`` and ``get_future`` are those of the backend's own ``Work``,
    errors included.

    Attributes:
        untimed: the backend's own ``Work``.
    """

    __slots__ = ("_operation", "untimed")

    untimed: dist.Work
    _operation: Operation

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


def timed_work(work: dist.Work, operation: Operation, has_future: bool) -> TimedWork:
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


def _ask_the_backends(name: str) -> Callable[..., object]:
    def method(self: TimedWork, *args: object, **kwargs: object) -> object:
        return getattr(self.untimed, name)(*args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = getattr(dist.Work, name).__doc__
    return method


for _name in dir(dist.Work):
    if (
        _name not in vars(TimedWork)
        and not _name.startswith("__")
        and _name not in ("unbox", "_pybind11_conduit_v1_")
    ):
        setattr(TimedWork, _name, _ask_the_backends(_name))

leave_uncompiled(TimedWork)
leave_uncompiled(UntoldWork)
