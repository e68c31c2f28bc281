"""Under torchrun: DistributedDataParallel with communication hooks, trained three ways."""

# Not with "from __future__ import annotations": DDP looks at those of a hook.

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import (
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
)
from torch.nn.parallel import DistributedDataParallel as DDP
from training_ddp import SMALL_BUCKETS
from training_models import mlp, train
from training_ways import Run, Variant, run_all, size

ONE_BUCKET = 25.0  # PowerSGD waits in gloo's threads, of which there are two

Hook = Callable[[Any, dist.GradBucket], torch.futures.Future[torch.Tensor]]


def hooked(
    hook: Hook,
    state: Callable[[], Any] = lambda: None,
    *,
    after_watching: bool = False,
    bucket_cap_mb: float = SMALL_BUCKETS,
) -> Variant:
    """A model with a hook, that is registered before or after the model is instrumented."""

    def variant(run: Run) -> None:
        model = DDP(mlp(), bucket_cap_mb=bucket_cap_mb)
        if after_watching:
            run.watch(model)
        model.register_comm_hook(state(), hook)
        if not after_watching:
            run.watch(model)
        train(run, model)

    return variant


def waits_in_the_hook(_: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A user's own, which does not leave anything running."""
    tensor = bucket.buffer()
    dist.all_reduce(tensor.div_(size))
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(tensor)
    return future


def gathers(_: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A user's own, of two operations, with what follows the second one chained to its future."""
    tensor = bucket.buffer()
    whole = [torch.empty_like(tensor) for _ in range(size)]

    def mean(_: torch.futures.Future[Any]) -> torch.Tensor:
        return torch.stack(whole).mean(0)

    dist.broadcast(torch.ones(1), src=0)
    return dist.all_gather(whole, tensor, async_op=True).get_future().then(mean)


def power_sgd_state() -> powerSGD_hook.PowerSGDState:
    return powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=0.5
    )


def local_sgd_state() -> post_localSGD_hook.PostLocalSGDState:
    whole = dist.new_group()
    return post_localSGD_hook.PostLocalSGDState(whole, whole, start_localSGD_iter=2)


def built_in(kind: dist.BuiltinCommHookType, *, after_watching: bool) -> Variant:
    """A hook of torch's that is written in C++."""

    def variant(run: Run) -> None:
        model = DDP(mlp(), bucket_cap_mb=SMALL_BUCKETS)
        if after_watching:
            run.watch(model)
        model._register_builtin_comm_hook(kind)
        if not after_watching:
            run.watch(model)
        train(run, model)

    return variant


def optimizer_in_the_hook(run: Run) -> None:
    model = DDP(mlp(), bucket_cap_mb=SMALL_BUCKETS)
    run.watch(model)
    model._register_fused_optim(torch.optim.SGD, lr=0.1)
    train(run, model, optimizer=torch.optim.SGD([torch.zeros(1, requires_grad=True)]))
    run.note("parameters", model.parameters())


VARIANTS: dict[str, Variant] = {
    "allreduce": hooked(default_hooks.allreduce_hook),
    "allreduce, registered later": hooked(default_hooks.allreduce_hook, after_watching=True),
    "fp16": hooked(default_hooks.fp16_compress_hook),
    "fp16 around a user's own": hooked(default_hooks.fp16_compress_wrapper(waits_in_the_hook)),
    "PowerSGD": hooked(powerSGD_hook.powerSGD_hook, power_sgd_state, bucket_cap_mb=ONE_BUCKET),
    "post-local SGD": hooked(post_localSGD_hook.post_localSGD_hook, local_sgd_state),
    "one that waits": hooked(waits_in_the_hook),
    "one that gathers": hooked(gathers),
    "built in": built_in(dist.BuiltinCommHookType.ALLREDUCE, after_watching=False),
    "built in, fp16": built_in(dist.BuiltinCommHookType.FP16_COMPRESS, after_watching=False),
    "built in, registered later": built_in(dist.BuiltinCommHookType.ALLREDUCE, after_watching=True),
    "optimizer in the hook": optimizer_in_the_hook,
}

if __name__ == "__main__":
    wanted = sys.argv[1:] or list(VARIANTS)
    run_all({name: VARIANTS[name] for name in wanted})
