"""A fast path for the most common calls: collectives of one tensor on the host, and DDP's buckets.

:func:`issue` examines any call step by step. Here one Python function does it for common calls, which
halves the overhead of timing. All other calls go to :func:`issue`.
"""

from __future__ import annotations

import sys
from typing import Any, Protocol, cast

import torch.distributed as dist

from allreduce_instrumentation.torch_distributed._group_timing import GroupTiming
from allreduce_instrumentation.torch_distributed._issue import issue, issue_in_background, layer_of
from allreduce_instrumentation.torch_distributed._layer_names import FSDP_MODULE, names_bucket
from allreduce_instrumentation.torch_distributed._methods import METHODS, Untimed
from allreduce_instrumentation.torch_distributed.which_group import CHOSEN
from timing_logger.recording.autograd_threads import called_by_the_engine


class _TimedGroup(Protocol):
    timing: GroupTiming
    untimed: dist.ProcessGroup


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

    def timed(self: _TimedGroup, *args: Any, **kwargs: Any) -> dist.Work | None:
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
