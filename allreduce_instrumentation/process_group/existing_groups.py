"""``instrument``: times process groups that exist already, and that stay as they are.

For calls from Python, the methods of torch's class are replaced by timed ones. The reducer of a DDP model
is C++ and would not call these: it is given a timed view of its group.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch.distributed as dist
from torch import nn
from torch.distributed import distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel

from allreduce_instrumentation.process_group._backends import backends_of
from allreduce_instrumentation.process_group._compilation import not_compiled
from allreduce_instrumentation.process_group._future_callbacks import let_end
from allreduce_instrumentation.process_group._group_timing import GroupTiming
from allreduce_instrumentation.process_group._issue import (
    end_coalescing,
    issue,
    monitored_barrier,
    start_coalescing,
)
from allreduce_instrumentation.process_group._layer_names import is_fsdp_module
from allreduce_instrumentation.process_group._methods import METHODS, Untimed
from allreduce_instrumentation.process_group._operations import finish_with
from allreduce_instrumentation.process_group._timed_group import TimedProcessGroup
from allreduce_instrumentation.process_group._torch_patches import broadcast_buffers_over, hand_over_works
from timing_logger.errors import ConfigurationError
from timing_logger.recording.global_logger import get_timing_logger

if TYPE_CHECKING:
    from timing_logger.recording.logger import TimingLogger

_UNTIMED: dict[str, Callable[..., object]] = {
    name: vars(dist.ProcessGroup)[name]  # as it is stored there: getattr on the class would unbind it
    for name in (*METHODS, "_start_coalescing", "_end_coalescing", "monitored_barrier")
    if name in vars(dist.ProcessGroup)
}


def instrument(timing_logger: TimingLogger | None = None, model: nn.Module | None = None) -> None:
    """Time the process groups that exist already, until :func:`uninstrument`.

    Every call from Python over a group is a row, including those of FSDP2 and of a DDP communication hook;
    the rows are those of :func:`init_process_group`. Calls that torch makes in C++ (functional
    collectives, compiled graphs, built-in communication hooks) are not seen, except those of the reducer
    of ``model``.

    Args:
        timing_logger: where the rows go. Default: ``get_timing_logger()``. If it is off, nothing is done.
        model: a ``DistributedDataParallel`` model, which gets one row per bucket, named after the bucket's
            first parameter; a hook that is registered on it works as before. Or an FSDP2 module, which
            needs no change. More models can be given by further calls.

    Raises:
        ValueError: torch's own, if the default group is not initialised.
        ConfigurationError: ``instrument()`` is in force, or ``init_process_group()`` of this package times
            all groups already, and this call gives no further model or another logger; or ``model`` is
            neither a DDP model nor an FSDP2 module.
    """
    world = c10d._get_default_group()
    logger = get_timing_logger() if timing_logger is None else timing_logger
    if model is not None and not isinstance(model, DistributedDataParallel) and not is_fsdp_module(model):
        raise ConfigurationError(
            f"model must be a DistributedDataParallel or an FSDP2 module, and is a {type(model).__name__}: "
            "wrap it first."
        )
    if not logger.enabled:
        return
    if isinstance(world, TimedProcessGroup):
        _name_buckets(world, logger, model)
        return
    _instrumentation.add(logger, model)


def uninstrument() -> None:
    """Undo :func:`instrument`: restore torch's class and the models' reducers."""
    _instrumentation.remove()


def logger_timing(group: dist.ProcessGroup) -> TimingLogger | None:
    """Return the logger to which ``group`` writes the rows of its operations; None if it is not timed."""
    if isinstance(group, TimedProcessGroup):
        return group.timing_logger
    timing = _instrumentation.timing_of(group)
    return None if timing is None else timing.logger


class _Instrumentation:
    """The state of :func:`instrument`: the logger, the timed groups, and the models' timed views."""

    def __init__(self) -> None:
        self.logger: TimingLogger | None = None
        self._timings: WeakKeyDictionary[dist.ProcessGroup, GroupTiming] = WeakKeyDictionary()
        # kept only as long as their models: a view holds its group, which must not outlive the models
        self._views: WeakKeyDictionary[DistributedDataParallel, TimedProcessGroup] = WeakKeyDictionary()

    def add(self, logger: TimingLogger, model: nn.Module | None) -> None:
        if self.logger is not None and (model is None or model in self._views or logger is not self.logger):
            raise ConfigurationError(
                "instrument() is in force already, with a logger and a model of its own: "
                "call uninstrument() first, or give another model and the same logger."
            )
        if self.logger is None:
            self.logger = logger
            for name in _UNTIMED:
                setattr(dist.ProcessGroup, name, _timed(name, getattr(dist.ProcessGroup, name)))
            hand_over_works()
            broadcast_buffers_over(lambda group: self._view_of(group) or group)
            finish_with(logger)
        if isinstance(model, DistributedDataParallel):
            self._add_model(model, logger)

    def _add_model(self, model: DistributedDataParallel, logger: TimingLogger) -> None:
        group = model.process_group
        view = self._view_of(group)
        if view is None:
            view = TimedProcessGroup(group, logger, backends_of(group))
            self._timings[group] = view.timing
        view.timing.ddp.add(model)
        model.reducer._update_process_group(view)
        self._views[model] = view

    def _view_of(self, group: dist.ProcessGroup) -> TimedProcessGroup | None:
        return next((view for view in self._views.values() if view.untimed is group), None)

    def remove(self) -> None:
        if self.logger is None:
            return
        let_end(lambda _: True)
        for name, untimed in _UNTIMED.items():
            setattr(dist.ProcessGroup, name, untimed)
        broadcast_buffers_over(None)
        for model, view in self._views.items():
            model.reducer._update_process_group(view.untimed)
        self.__init__()  # type: ignore[misc]

    def timing_of(self, group: dist.ProcessGroup) -> GroupTiming | None:
        """Return how ``group`` is timed; None if it is not, or if torch has not registered it."""
        found = self._timings.get(group)
        if found is None and self.logger is not None and group in c10d._world.pg_map:
            found = self._timings[group] = GroupTiming(group, self.logger, backends_of(group))
        return found


_instrumentation = _Instrumentation()


def _timed(name: str, untimed: Untimed) -> Untimed:
    def method(self: dist.ProcessGroup, *args: Any, **kwargs: Any) -> Any:
        timing = _instrumentation.timing_of(self) if type(self) is dist.ProcessGroup else None
        if timing is None:
            return untimed(self, *args, **kwargs)
        if name == "_start_coalescing":
            return start_coalescing(timing, partial(untimed, self, *args))
        if name == "_end_coalescing":
            return end_coalescing(timing, partial(untimed, self, *args))
        if name == "monitored_barrier":
            return monitored_barrier(timing, partial(untimed, self, *args, **kwargs))
        return issue(timing, name, untimed, self, args, kwargs)

    # pybind11 takes this function for an override of the C++ method. By the name of the calling code it
    # recognises that a call from here means the C++ method itself.
    method.__code__ = method.__code__.replace(co_name=name)
    method.__name__, method.__qualname__, method.__doc__ = name, f"ProcessGroup.{name}", untimed.__doc__
    return not_compiled(method)


def _name_buckets(world: TimedProcessGroup, logger: TimingLogger, model: nn.Module | None) -> None:
    """Add ``model`` to a group of :func:`init_process_group`, so that its buckets get names."""
    if model is None or logger is not world.timing_logger:
        raise ConfigurationError(
            "init_process_group() of this package times all groups already, with a logger of its own: "
            "leave instrument() out, or give it a model and the same logger."
        )
    if isinstance(model, DistributedDataParallel) and isinstance(model.process_group, TimedProcessGroup):
        model.process_group.timing.ddp.add(model)
