"""What training sees of a group: gradients, hooks, graphs; two ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from oracle_calls import ones, rank, world
from torch import nn
from torch.distributed.nn import functional as differentiable
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.parallel import DistributedDataParallel


def derivatives() -> list[Any]:
    """Collectives that autograd goes back through."""
    found = []
    for call in (
        differentiable.all_reduce,
        lambda tensor: differentiable.all_gather(tensor)[1 - rank()],
        lambda tensor: differentiable.broadcast(tensor, 0),
        lambda tensor: differentiable.all_to_all_single(torch.empty(4), tensor),
    ):
        tensor = ones().requires_grad_()
        call(tensor).pow(2).sum().backward()
        found.append(tensor.grad.tolist())
    return found


def traced() -> str:
    """The graph that torch makes of a collective."""

    def step(tensor: torch.Tensor) -> torch.Tensor:
        doubled = tensor * 2
        work: Any = dist.all_reduce(doubled, async_op=True)
        work.wait()
        return doubled + 1

    return str(make_fx(step)(ones()).code)


def gradients(hook: Callable[[DistributedDataParallel], None], **options: Any) -> list[Any]:
    torch.manual_seed(3)
    layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    model = DistributedDataParallel(layers, **options)
    hook(model)
    for step in range(3):
        model(ones(4) + step).sum().backward()
    return [parameter.grad.tolist() for parameter in model.parameters()]


def later(state: None, bucket):  # torch compares annotations, and these here are texts
    return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0] / 2)


def built_in(model: DistributedDataParallel) -> None:
    model._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)


def reducer_by_itself() -> list[Any]:
    """DDP's C++ half, given the group by hand."""
    parameter = nn.Parameter(ones())
    reducer = dist.Reducer([parameter], [[0]], [1000], world(), expect_sparse_gradients=[False])
    reducer.prepare_for_forward()
    loss = (parameter * (rank() + 1)).sum()
    reducer.prepare_for_backward([loss])
    loss.backward()
    return parameter.grad.tolist()


GRADIENTS: dict[str, Callable[[], Any]] = {
    "derivatives": derivatives,
    "traced": traced,
    "DDP": lambda: gradients(lambda model: None),
    "DDP in views of buckets": lambda: gradients(lambda model: None, gradient_as_bucket_view=True),
    "DDP without a first broadcast": lambda: gradients(lambda model: None, init_sync=False),
    "DDP with a hook": lambda: gradients(lambda model: model.register_comm_hook(None, later)),
    "DDP with a hook of torch": lambda: gradients(built_in),
    "reducer by itself": reducer_by_itself,
}
