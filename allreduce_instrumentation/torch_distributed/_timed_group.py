"""``TimedProcessGroup``: a process group that times itself, for callers in Python and in C++."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist

from allreduce_instrumentation.torch_distributed._backend_durations import BackendDurations, WorkDurations
from allreduce_instrumentation.torch_distributed._group_timing import GroupTiming
from allreduce_instrumentation.torch_distributed._issue import (
    end_coalescing,
    issue,
    issue_in_background,
    layer_of,
    monitored_barrier,
    start_coalescing,
)
from allreduce_instrumentation.torch_distributed._layer_names import FSDP_MODULE, names_bucket
from allreduce_instrumentation.torch_distributed._methods import METHODS, Untimed
from allreduce_instrumentation.torch_distributed._timed_work import asking_the_untimed
from allreduce_instrumentation.torch_distributed._torch_versions import (
    leave_uncompiled,
    warn_of_an_untried_torch,
)
from allreduce_instrumentation.torch_distributed.which_group import CHOSEN
from timing_logger.recording.autograd_threads import called_by_the_engine
from timing_logger.recording.logger import TimingLogger

OVER_ONE_TENSOR = (
    "allreduce", "broadcast", "reduce", "all_gather_single", "_allgather_base", "reduce_scatter_single",
    "_reduce_scatter_base",
)  # fmt: skip
"""The methods that send one tensor, alone or as the only element of a list."""


def in_cpp_first(name: str, otherwise: Untimed) -> Untimed:
    """Return the timed method of this name that C++ has; ``otherwise`` is for the calls that it leaves."""
    number, issue_in_cpp = CHOSEN.methods[name], CHOSEN.issue

    def timed(self: dist.ProcessGroup, *args: Any, **kwargs: Any) -> dist.Work | None:
        if not kwargs:
            work = issue_in_cpp(number, self, args)
            if work is not NotImplemented:
                return cast("dist.Work | None", work)
        return otherwise(self, *args, **kwargs)

    return timed


def common_first(name: str, untimed: Untimed) -> Untimed:
    """Return the timed method for torch's method ``untimed`` of this name, with a fast path."""
    method = METHODS[name]
    operation, has_root, may_be_ddps = method.operation, method.root is not None, name == "allreduce"
    sent: Any = method.sent
    options: Any = method.options
    torchs_own, work, modules = dist.ProcessGroup, dist.Work, sys.modules  # closed over: quicker to look up

    def timed(self: TimedProcessGroup, *args: Any, **kwargs: Any) -> dist.Work | None:
        timing, group = self.timing, self.untimed
        logger = timing.logger
        call: Untimed = untimed if type(group) is torchs_own else getattr(type(group), name)
        if timing.batch is None and not kwargs:
            try:
                tensor, chosen = args[sent], args[options]
                if type(tensor) is list:
                    (tensor,) = tensor
                size, on_host, goes_on = tensor.nbytes, tensor.is_cpu, chosen.asyncOp
                peer = method.other_rank(chosen, args, kwargs) if has_root else None
                may_be_bucket = goes_on and may_be_ddps and logger.recording and timing.ddp.known
                by_reducer = may_be_bucket and called_by_the_engine()
                is_common = on_host or by_reducer
                may_have_layer = (
                    is_common and logger.recording and (timing.ddp.known or FSDP_MODULE in modules)
                )
                layer = layer_of(timing, method, tensor) if may_have_layer else None  # it counts buckets
            except Exception:  # torch's own error comes from the call itself
                is_common = False
            if is_common and not goes_on:
                return logger.time_call(
                    operation, size, layer, peer, timing.identity, work, call, (group, *args)
                )
            if is_common and logger.recording:
                columns = operation, size, layer, peer
                is_bucket = by_reducer and names_bucket(layer)
                return issue_in_background(timing, name, columns, tensor, call, (group, *args), is_bucket)
        return issue(timing, name, call, group, args, kwargs)

    return timed


if TYPE_CHECKING:
    _Group = dist.ProcessGroup
else:
    _Group = CHOSEN.base


class TimedProcessGroup(_Group):
    """A process group that works on the backends of another one and makes a row of every operation.

    Calls from C++, such as those of the reducer of ``DistributedDataParallel``, are timed too: torch calls
    the methods of a Python process group. Operations for which torch calls no method run on the same
    backends untimed.

    Args:
        group: the untimed group; it goes on doing the work.
        timing_logger: where the rows go.
        backends: the backend for each type of device, such as ``{"cpu": "gloo"}``.

    Attributes:
        timing_logger: where the rows go.
        untimed: the group that does the work.
        timing: how the operations are timed.
    """

    def __init__(
        self, group: dist.ProcessGroup, timing_logger: TimingLogger, backends: Mapping[str, str]
    ) -> None:
        warn_of_an_untried_torch()
        super().__init__(group.rank(), group.size())  # type: ignore[call-arg]
        self.untimed = group
        self.timing_logger = timing_logger
        self._take_after(group, backends)
        self.timing = GroupTiming(group, timing_logger, backends)
        self.timing.identity.share_with(self)
        timing_logger.note_process_group(CHOSEN.name)
        if type(self) is TimedProcessGroup:  # a class of a program's own may have other methods
            CHOSEN.begin(self, self.timing, self.untimed)

    @classmethod
    def of_new(
        cls,
        group: dist.ProcessGroup,
        timing_logger: TimingLogger,
        backends: Mapping[str, str],
        backend_durations: bool = False,
    ) -> TimedProcessGroup:
        """Return the timed group of a ``group`` over which nothing was called yet.

        Only of such a group NCCL can be asked for its own durations.
        """
        timed = cls(group, timing_logger, backends)
        of_works = WorkDurations.of(group, backend_durations)
        if of_works is not None:
            of_works.collect_before_close(timing_logger)
        timed.timing.backend_durations = of_works or BackendDurations.of(group, backends, backend_durations)
        if timed.timing.backend_durations is not None:
            CHOSEN.leave_to_python(timed, True)
        return timed

    def _made_from(self, group: dist.ProcessGroup) -> TimedProcessGroup:
        """Return the timed group of a ``group`` that torch made from this one."""
        wanted = self.timing.backend_durations is not None
        return TimedProcessGroup.of_new(group, self.timing_logger, self.backends, wanted)

    def _take_after(self, group: dist.ProcessGroup, backends: Mapping[str, str]) -> None:
        """Copy from ``group`` everything that torch reads from the C++ half of a group."""
        if group.bound_device_id is not None:
            self.bound_device_id = group.bound_device_id
        types = dist.Backend.backend_type_map
        custom = dist.ProcessGroup.BackendType.CUSTOM
        for device in group._device_types:
            kind = types.get(backends.get(device.type, ""), custom)
            self._register_backend(device, kind, group._get_backend(device))
        if group._device_types:  # backends keep the names; a group that is written in Python has none
            self._set_default_backend(types.get(group._get_backend_name(), custom))
            self._set_group_name(group.group_name)
            self._set_group_desc(group.group_desc)

    @property
    def backends(self) -> dict[str, str]:
        """The backend for each type of device."""
        return self.timing.backends

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Call and time gloo's ``monitored_barrier``, which names the ranks that did not come."""
        call = self.untimed.monitored_barrier  # type: ignore[attr-defined]
        monitored_barrier(self.timing, partial(call, timeout, wait_all_ranks))

    def _start_coalescing(self, device: torch.device) -> None:
        CHOSEN.leave_to_python(self, True)
        start_coalescing(self.timing, partial(self.untimed._start_coalescing, device))

    def _end_coalescing(self, device: torch.device) -> Any:
        CHOSEN.leave_to_python(self, self.timing.backend_durations is not None)
        return end_coalescing(self.timing, partial(self.untimed._end_coalescing, device))

    def split_group(self, *args: Any, **kwargs: Any) -> dist.ProcessGroup | None:
        part = self.untimed.split_group(*args, **kwargs)
        return None if part is None else self._made_from(part)

    def merge_remote_group(self, *args: Any, **kwargs: Any) -> dist.ProcessGroup:
        return self._made_from(self.untimed.merge_remote_group(*args, **kwargs))

    def abort(self) -> None:
        self.untimed.abort()
        self.timing.let_callbacks_end()

    def shutdown(self) -> None:
        self.timing.let_callbacks_end()
        # Its hooks are waited for, as ``destroy_process_group`` does for groups of torch's own type.
        if type(self.untimed) is dist.ProcessGroup and self.untimed._has_hooks():
            self.untimed._wait_for_pending_works()
        self.untimed.shutdown()
        if self.timing.backend_durations is not None:  # nccl2 waits for its works there
            self.timing.backend_durations.collect()


def _timed(name: str, untimed: Untimed) -> Untimed:
    def method(self: TimedProcessGroup, *args: Any, **kwargs: Any) -> dist.Work | None:
        group = self.untimed
        call = untimed if type(group) is dist.ProcessGroup else getattr(type(group), name)
        return issue(self.timing, name, call, group, args, kwargs)

    timed = method
    if name in CHOSEN.methods:
        timed = in_cpp_first(name, method)
    elif name in OVER_ONE_TENSOR:
        timed = common_first(name, untimed)
    timed.__name__, timed.__qualname__ = name, f"TimedProcessGroup.{name}"
    timed.__doc__ = untimed.__doc__
    return timed


_HOOKS = ("register_pre_hook", "unregister_pre_hook", "register_post_hook", "unregister_post_hook")
for _name in ("get_group_store", "name", *_HOOKS):  # hooks are called for the group that does the work
    if hasattr(dist.ProcessGroup, _name):  # there are hooks since torch 2.14
        setattr(TimedProcessGroup, _name, asking_the_untimed(dist.ProcessGroup, _name))

for _name in METHODS:
    if hasattr(dist.ProcessGroup, _name):
        setattr(TimedProcessGroup, _name, _timed(_name, getattr(dist.ProcessGroup, _name)))

leave_uncompiled(TimedProcessGroup)
