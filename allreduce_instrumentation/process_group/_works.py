"""A handle on a timed operation: the backend's own, and it notices who waits on it."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from allreduce_instrumentation.process_group._backward_waits import note_use_in_backward
from allreduce_instrumentation.process_group._compilation import leave_uncompiled
from allreduce_instrumentation.process_group._operations import Operation


class TimedWork(dist.Work):
    """What a timed group returns for an operation under way.

    Every question but ``wait`` goes to the backend's own ``Work``, errors included.

    Attributes:
        untimed: the backend's own.
    """

    untimed: dist.Work
    _operation: Operation
    _has_future = True  # of one whose making was interrupted: then __del__ has nothing to do

    def wait(self, *args: Any, **kwargs: Any) -> bool:
        return self._operation.wait(self.untimed, *args, **kwargs)  # type: ignore[no-any-return]

    def get_future(self) -> torch.futures.Future[Any]:
        future = self.untimed.get_future()
        if self._operation.goes_on:
            if not self._has_future:  # whoever takes it may keep it alone
                self._has_future = True
                self._operation.end_by(future)
            note_use_in_backward(self._operation, future)
        return future

    def __getattr__(self, name: str) -> Any:
        if name in ("untimed", "_operation"):  # not there yet
            raise AttributeError(name)
        return getattr(self.untimed, name)

    def __del__(self) -> None:
        if not self._has_future:  # else its future will tell
            self._operation.lose()


def timed_work(work: dist.Work, operation: Operation, has_future: bool) -> TimedWork:
    """A handle on ``operation``. Made without an ``__init__`` in Python, which would double its cost.

    Args:
        has_future: the operation's end will be told by a future, also if nobody waits.
    """
    handle = TimedWork()
    handle.untimed = work
    handle._operation = operation
    handle._has_future = has_future
    return handle


def _ask_the_backends(name: str) -> Any:
    def method(self: TimedWork, *args: Any, **kwargs: Any) -> Any:
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
