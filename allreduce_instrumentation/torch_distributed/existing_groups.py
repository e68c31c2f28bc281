"""``instrument``: times process groups that exist already, and that stay as they are.

Calls from Python are timed by the methods that they go through (``TimedMethods``), and so is every call over
a group that is written in Python. Of what C++ code issues, torch tells since version 2.14
(``_dispatched_calls``). Before that, the reducer of a DDP model is given a timed view of its group, and other
calls from C++ are not seen.
"""

from __future__ import annotations

import gc
from weakref import WeakKeyDictionary, WeakSet

import torch.distributed as dist
from torch import nn
from torch.distributed import distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel

from allreduce_instrumentation.torch_distributed import _dispatched_calls as dispatched_calls
from allreduce_instrumentation.torch_distributed import initialization
from allreduce_instrumentation.torch_distributed._backends import backends_of
from allreduce_instrumentation.torch_distributed._dispatched_calls import TimedMethods
from allreduce_instrumentation.torch_distributed._group_timing import GroupTiming
from allreduce_instrumentation.torch_distributed._layer_names import is_fsdp_module
from allreduce_instrumentation.torch_distributed._operations import finish_with, let_end
from allreduce_instrumentation.torch_distributed._timed_group import TimedProcessGroup
from allreduce_instrumentation.torch_distributed._torch_versions import warn_of_an_untried_torch
from timing_logger.errors import ConfigurationError
from timing_logger.recording.global_logger import get_timing_logger
from timing_logger.recording.logger import TimingLogger


def instrument(timing_logger: TimingLogger | None = None, model: nn.Module | None = None) -> None:
    """Time the process groups that exist already, until :func:`uninstrument`.

    Every call from Python over a group is a row, including those of FSDP2 and of a DDP communication hook;
    the rows are those of :func:`init_process_group`. With torch 2.14 or later so is every call that torch
    makes in C++ (DDP's reducer, functional collectives, compiled graphs, built-in communication hooks); only
    those of the reducer have a ``WAIT``. With an older torch nothing of this is seen but the reducer of
    ``model``.

    Args:
        timing_logger: where the rows go. Default: ``get_timing_logger()``. If it is off, nothing is done.
        model: a ``DistributedDataParallel`` model, which gets one row per bucket, named after the bucket's
            first parameter; a hook that is registered on it works as before. With torch 2.14 or later all
            such models have them, given or not. Or an FSDP2 module, which needs no change. More models can be
            given by further calls.

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


def leave_to_its_maker(group: dist.ProcessGroup) -> None:
    """Have :func:`instrument` see no calls over ``group`` that C++ code issues: who made it times it."""
    _instrumentation.uncover(group)


class _Instrumentation:
    """The state of :func:`instrument`: the logger, the timed groups, and what was changed for them."""

    def __init__(self) -> None:
        self.logger: TimingLogger | None = None
        self._methods = TimedMethods(self.timing_of)
        self._timings: WeakKeyDictionary[dist.ProcessGroup, GroupTiming] = WeakKeyDictionary()
        self._hooked: WeakSet[dist.ProcessGroup] = WeakSet()
        self._models: WeakSet[DistributedDataParallel] = WeakSet()
        # kept only as long as their models: a view holds its group, which must not outlive the models
        self._views: WeakKeyDictionary[DistributedDataParallel, TimedProcessGroup] = WeakKeyDictionary()

    def add(self, logger: TimingLogger, model: nn.Module | None) -> None:
        if self.logger is not None and (model is None or model in self._models or logger is not self.logger):
            raise ConfigurationError(
                "instrument() is in force already, with a logger and a model of its own: "
                "call uninstrument() first, or give another model and the same logger."
            )
        if self.logger is None:
            self._begin(logger)
        if isinstance(model, DistributedDataParallel):
            self._models.add(model)
            self._add_model(model, logger)

    def _begin(self, logger: TimingLogger) -> None:
        warn_of_an_untried_torch()
        self.logger = logger
        self._methods.replace(dist.ProcessGroup)
        for group in list(c10d._world.pg_map):
            self._cover(group)
        initialization.time_new_groups(self._cover)
        initialization.broadcast_buffers_over(lambda group: self._view_of(group) or group)
        finish_with(logger)
        if dispatched_calls.AVAILABLE:
            for model in _ddp_models():
                timing = self.timing_of(model.process_group)
                if timing is not None:
                    timing.ddp.add(model)

    def _cover(self, group: dist.ProcessGroup) -> None:
        """Time calls over ``group`` that do not go through the methods of torch's own class."""
        if type(group) is not dist.ProcessGroup:
            self._methods.replace(type(group))
        timing = self.timing_of(group) if dispatched_calls.AVAILABLE else None
        if timing is not None:
            dispatched_calls.DispatchedCalls(timing).observe(group)
            self._hooked.add(group)

    def uncover(self, group: dist.ProcessGroup) -> None:
        if group in self._hooked:
            self._hooked.discard(group)
            dispatched_calls.forget(group)

    def _add_model(self, model: DistributedDataParallel, logger: TimingLogger) -> None:
        group = model.process_group
        if type(group) is dist.ProcessGroup and not dispatched_calls.AVAILABLE:
            self._views[model] = view = self._view_of(group) or self._new_view(group, logger)
            model.reducer._update_process_group(view)
        elif self.timing_of(group) is None:  # torch has not registered it
            self._timings[group] = GroupTiming(group, logger, {})
            self._cover(group)
        self._timings[group].ddp.add(model)

    def _new_view(self, group: dist.ProcessGroup, logger: TimingLogger) -> TimedProcessGroup:
        view = TimedProcessGroup(group, logger, backends_of(group))
        self._timings[group] = view.timing
        return view

    def _view_of(self, group: dist.ProcessGroup) -> TimedProcessGroup | None:
        return next((view for view in self._views.values() if view.untimed is group), None)

    def remove(self) -> None:
        if self.logger is None:
            return
        let_end(lambda _: True)
        self._methods.restore()
        initialization.leave_new_groups_untimed()
        initialization.broadcast_buffers_over(None)
        for group in self._hooked:
            dispatched_calls.forget(group)
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


def _ddp_models() -> list[DistributedDataParallel]:
    """Return the DDP models that exist."""
    return [thing for thing in gc.get_objects() if issubclass(type(thing), DistributedDataParallel)]


def _name_buckets(world: TimedProcessGroup, logger: TimingLogger, model: nn.Module | None) -> None:
    """Add ``model`` to a group of :func:`init_process_group`, so that its buckets get names."""
    if model is None or logger is not world.timing_logger:
        raise ConfigurationError(
            "init_process_group() of this package times all groups already, with a logger of its own: "
            "leave instrument() out, or give it a model and the same logger."
        )
    if isinstance(model, DistributedDataParallel) and isinstance(model.process_group, TimedProcessGroup):
        model.process_group.timing.ddp.add(model)
