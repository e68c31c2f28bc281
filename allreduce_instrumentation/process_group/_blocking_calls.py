"""The commonest call, made short: it blocks, over one tensor on the host, in the form of torch's functions.

What :func:`issue` finds out of any call step by step is asked here at once, in one Python function: it
halves what timing adds. A call that is anything else goes to :func:`issue`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch.distributed as dist

from allreduce_instrumentation.process_group._issue import issue, layer_of
from allreduce_instrumentation.process_group._methods import METHODS
from allreduce_instrumentation.process_group._timing import GroupTiming


class _TimedGroup(Protocol):
    timing: GroupTiming
    untimed: dist.ProcessGroup


OVER_ONE_TENSOR = (
    "allreduce", "broadcast", "reduce", "all_gather_single", "_allgather_base", "reduce_scatter_single",
    "_reduce_scatter_base",
)  # fmt: skip
"""The methods that send one tensor, alone or as the only one of a list."""


def blocking_first(name: str, untimed: Callable[..., Any]) -> Callable[..., Any]:
    """The timed method for torch's method ``untimed`` of this name."""
    method = METHODS[name]
    operation, has_root = method.operation, not method.among_equals
    sent: Any = method.sent
    options: Any = method.options
    torchs_own, work = dist.ProcessGroup, dist.Work  # closed over: quicker to look up

    def timed(self: _TimedGroup, *args: Any, **kwargs: Any) -> Any:
        timing, group = self.timing, self.untimed
        logger = timing.logger
        call = untimed if type(group) is torchs_own else getattr(type(group), name)
        if logger.recording and timing.batch is None and not kwargs:
            try:
                tensor, chosen = args[sent], args[options]
                if type(tensor) is list:
                    (tensor,) = tensor
                is_short = not chosen.asyncOp and tensor.is_cpu
                size = tensor.nbytes
                peer = method.other_rank(chosen, args, kwargs) if has_root else None
                layer = layer_of(timing, method, tensor) if is_short else None  # it counts buckets
            except Exception:  # torch's own error comes from the call itself
                is_short = False
            if is_short:
                return logger.time_call(
                    operation, size, layer, peer, timing.identity, work, call, (group, *args), kwargs
                )
        return issue(timing, name, call, group, args, kwargs)

    return timed
