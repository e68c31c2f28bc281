"""Times the calls that go through the methods of a process group: those from Python.

A group that is shut down or aborted first lets the callbacks end with which its operations are timed.
The methods of torch's class are replaced, and those of classes that are written in Python, which torch's
C++ code calls as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch.distributed as dist

from allreduce_instrumentation.torch_distributed._group_timing import GroupTiming
from allreduce_instrumentation.torch_distributed._issue import (
    end_coalescing,
    issue,
    monitored_barrier,
    start_coalescing,
)
from allreduce_instrumentation.torch_distributed._methods import METHODS, Untimed
from allreduce_instrumentation.torch_distributed._timed_group import TimedProcessGroup
from allreduce_instrumentation.torch_distributed._torch_versions import not_compiled

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
