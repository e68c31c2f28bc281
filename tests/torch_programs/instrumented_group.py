"""Two ranks under torchrun: whose bucket or module a row is, for groups that are timed in either way.

Arguments: ``init`` for groups of ``init_process_group`` of the package, ``instrument`` for groups that torch
has made before, ``both`` for these and then those; and the trainings, all if none is named. The names of a
DDP model's buckets are compared with what a communication hook is told on the same model. Every training has
iterations of its own, by which its rows are found in the end: those of a bucket may come a moment after its
backward pass.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from _names import all_gather_single, reduce_scatter_single
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import allreduce_instrumentation
from allreduce_instrumentation.torch_distributed._operations import let_end
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink

WAYS = ("instrument", "init") if sys.argv[1] == "both" else (sys.argv[1],)
BY_INSTRUMENT: bool  # or by init_process_group: how groups are timed now
STEPS = 5
A_TRAINING = 100
"""Iterations of the first training begin at 0, of the second at 100, ..."""

torch.set_num_threads(1)
sink = MemorySink()
logger = TimingLogger(int(os.environ["RANK"]), None, sinks=[sink])
off = TimingLogger(0, None, enabled=False)


def error_of(call: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    try:
        call(*args, **kwargs)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


not_initialised = [error_of(allreduce_instrumentation.instrument, logger), error_of(dist.get_rank)]
torchs_own = dict(vars(dist.ProcessGroup))
torchs_functions = {name: vars(dist)[name] for name in ("_broadcast_coalesced", "batch_isend_irecv")}
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


# -- models ----------------------------------------------------------------------------------------------


class Layers(nn.Module):
    """Layers of different lengths, used in the order that is given."""

    def __init__(self, order: tuple[int, ...] = (0, 1, 2, 3), widths: tuple[int, ...] = (6, 7, 8, 9)) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Sequential(nn.Linear(6, w), nn.Linear(w, 6)) for w in widths)
        self.order = order

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        for number in self.order:
            data = torch.tanh(self.parts[number](data))
        return data


class Frozen(Layers):
    def __init__(self) -> None:
        super().__init__()
        self.parts[1].requires_grad_(False)


class WithBuffers(Layers):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return self.norm(super().forward(data))


class TwoTypes(Layers):
    """Of which one has parameters of twice the length."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6, dtype=torch.float64))

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return super().forward(data) * self.scale


class Case(NamedTuple):
    make: Callable[[], nn.Module] = Layers
    arguments: dict[str, Any] = {}  # noqa: RUF012
    hook: Any = None


CASES: dict[str, Case] = {
    "in order": Case(),
    "one bucket": Case(arguments={"bucket_cap_mb": 25}),
    "torch's default sizes": Case(arguments={"bucket_cap_mb": None}),
    "out of order": Case(lambda: Layers((2, 0, 3, 1))),
    "of one size, out of order": Case(lambda: Layers((2, 0, 3, 1), (7, 7, 7, 7))),
    "views": Case(arguments={"gradient_as_bucket_view": True}),
    "static graph": Case(arguments={"static_graph": True}),
    "a part unused": Case(lambda: Layers((0, 1, 3)), {"find_unused_parameters": True}),
    "frozen": Case(Frozen),
    "two types": Case(TwoTypes),
    "buffers": Case(WithBuffers),
    "allreduce_hook": Case(hook=default_hooks.allreduce_hook),
    "fp16_compress_hook": Case(hook=default_hooks.fp16_compress_hook),
}


CHOSEN = {name: CASES[name] for name in sys.argv[2:] or CASES}


def made(case: Case) -> DistributedDataParallel:
    torch.manual_seed(1)
    arguments = {"bucket_cap_mb": 0.0005, **case.arguments}
    model = DistributedDataParallel(case.make(), **arguments)
    if case.hook is not None:
        model.register_comm_hook(None, case.hook)
    return model


def train(model: nn.Module, first_iteration: int, steps: int = STEPS) -> list[float]:
    """The losses, and the sum of all parameters."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    losses = []
    for step in range(steps):
        logger.set_current_iteration(first_iteration + step)
        loss = model(torch.randn(4, 6, generator=generator)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return [*losses, *(parameter.detach().sum().item() for parameter in model.parameters())]


def told_to_a_hook(case: Case) -> list[list[str]]:
    """The first parameter of each bucket of each step, in the order of their reduction."""
    model = made(case._replace(hook=None))
    names = {id(parameter): name for name, parameter in model.module.named_parameters()}
    told: list[list[str]] = []

    def hook(state, bucket):  # without types: torch refuses those that are text
        if bucket.index() == 0:
            told.append([])
        told[-1].append(f"ddp:{names[id(bucket.parameters()[0])]}")
        return default_hooks.allreduce_hook(None, bucket)

    model.register_comm_hook(None, hook)
    train(model, -1_000_000)
    return told


# -- DDP -------------------------------------------------------------------------------------------------


def untimed_trainings() -> dict[str, list[float]]:
    """Each model trained over a group of torch's own."""
    return {name: train(made(case), -1_000_000) for name, case in CHOSEN.items()}


def trainings(untimed: dict[str, list[float]]) -> dict[str, Any]:
    """Each model trained twice more: with a hook that listens, and timed."""
    found = {}
    for number, (name, case) in enumerate(CHOSEN.items()):
        told = told_to_a_hook(case)
        model = made(case)
        if BY_INSTRUMENT:
            allreduce_instrumentation.instrument(logger, model)
        timed = train(model, number * A_TRAINING)
        if BY_INSTRUMENT:
            allreduce_instrumentation.uninstrument()
        logger.set_current_iteration(-1)
        found[name] = {
            "told": told,
            "untimed": untimed[name],
            "timed": timed,
            "iteration": number * A_TRAINING,
            "goes on": train(model, -1_000_000, 1)[0],
        }
    return found


def rows() -> dict[int, list[Any]]:
    """Of each iteration that was to be timed."""
    for _ in range(10):  # half a second each, and only if something is open
        let_end(lambda _: True)
    dist.barrier()
    logger.flush()
    found: dict[int, list[Any]] = {}
    for record in sink.records:
        if record.iteration is not None and record.iteration >= 0:
            found.setdefault(record.iteration, []).append(columns(record))
    return found


def columns(record: Record) -> list[Any]:
    return [
        record.operation, record.layer_name, record.message_size_bytes, record.group, record.group_size,
        record.seq, record.peer, record.status,
    ]  # fmt: skip


# -- other cases -----------------------------------------------------------------------------------------


def labelled(iteration: int) -> None:
    model = made(CASES["in order"])
    if BY_INSTRUMENT:
        allreduce_instrumentation.instrument(logger, model)
    for step in range(STEPS):
        with logger.label("mine", "dense"):
            train(model, iteration + step, 1)
    if BY_INSTRUMENT:
        allreduce_instrumentation.uninstrument()


def in_the_middle(iteration: int) -> None:
    """Of a training; its buckets have been built anew before."""
    model = made(CASES["out of order"])
    train(model, -1_000_000)
    allreduce_instrumentation.instrument(logger, model)
    train(model, iteration)
    allreduce_instrumentation.uninstrument()


def no_sync(iteration: int) -> None:
    """Two backward passes without reduction, one with."""
    model = made(CASES["in order"])
    if BY_INSTRUMENT:
        allreduce_instrumentation.instrument(logger, model)
    for step in range(3 * STEPS):
        logger.set_current_iteration(iteration + step)
        model.require_backward_grad_sync = step % 3 == 2  # what model.no_sync() sets
        model(torch.ones(2, 6)).sum().backward()
    if BY_INSTRUMENT:
        allreduce_instrumentation.uninstrument()


def two_models(iteration: int) -> None:
    """Of one shape and different names, over one group."""
    models = {}
    for name in ("first", "second"):
        torch.manual_seed(1)
        inner = nn.Sequential()
        inner.add_module(name, Layers())
        models[name] = DistributedDataParallel(inner, bucket_cap_mb=0.0005)
    if BY_INSTRUMENT:
        for model in models.values():
            allreduce_instrumentation.instrument(logger, model)
    for step in range(STEPS):
        for number, model in enumerate(models.values()):
            train(model, iteration + 2 * step + number, 1)
    if BY_INSTRUMENT:
        allreduce_instrumentation.uninstrument()


def waiting_in_a_hook(iteration: int) -> dict[str, Any]:
    """When a hook in Python that waits for each bucket itself was blocked, in the last step."""
    blocked: list[tuple[int, int]] = []

    def hook(state, bucket):  # without types: torch refuses those that are text
        buffer = bucket.buffer()
        work = dist.all_reduce(buffer, async_op=True)
        start_ns = time.perf_counter_ns()
        work.wait()
        blocked.append((start_ns, time.perf_counter_ns()))
        future = torch.futures.Future()
        future.set_result(buffer.div_(size))
        return future

    model = made(CASES["in order"])
    model.register_comm_hook(None, hook)
    if BY_INSTRUMENT:
        allreduce_instrumentation.instrument(logger, model)
    train(model, iteration)
    if BY_INSTRUMENT:
        allreduce_instrumentation.uninstrument()
    logger.flush()
    last = [record for record in sink.records if record.iteration == iteration + STEPS - 1]
    waits = [record for record in last if record.operation == "WAIT"]
    return {
        "blocked": blocked[-len(blocked) // STEPS :],
        "waits": [(record.start_ns, record.end_ns) for record in waits],
        "named": [record.layer_name.startswith("ddp:") for record in waits],
    }


class Sharded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
        self.head = nn.Linear(6, 2)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            data = torch.tanh(layer(data))
        return self.head(data)


def sharded(iteration: int) -> None:
    torch.manual_seed(1)
    model = Sharded()
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("shard",))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    if BY_INSTRUMENT:
        allreduce_instrumentation.instrument(logger, model)
    train(model, iteration, 2)
    with logger.label("mine"):
        train(model, iteration + 2, 1)
    if BY_INSTRUMENT:
        allreduce_instrumentation.uninstrument()


# -- instrument and uninstrument -------------------------------------------------------------------------


def refused() -> dict[str, str]:
    instrument = allreduce_instrumentation.instrument
    model = made(CASES["in order"])
    other = TimingLogger(rank, None, sinks=[MemorySink()])
    found = {"neither": error_of(instrument, logger, nn.Linear(2, 2))}
    found["first"] = error_of(instrument, logger, model)
    found["again"] = error_of(instrument, logger)
    found["other logger"] = error_of(instrument, other, made(CASES["in order"]))
    if BY_INSTRUMENT:
        found["same model"] = error_of(instrument, logger, model)
        found["another model"] = error_of(instrument, logger, made(CASES["in order"]))
    allreduce_instrumentation.uninstrument()
    found["after uninstrument"] = error_of(instrument, logger, model)
    allreduce_instrumentation.uninstrument()
    found["off"] = error_of(instrument, off)
    found["off changed"] = str(changed_of_torch())
    other.close()
    return found


def changed_of_torch() -> list[str]:
    """What is not the very same object as before anything was timed."""
    now = vars(dist.ProcessGroup)
    changed = [name for name in {*now, *torchs_own} if now.get(name) is not torchs_own.get(name)]
    return sorted(
        [*changed, *(name for name, own in torchs_functions.items() if vars(dist)[name] is not own)]
    )


def calls(iteration: int) -> Any:
    """Over groups from before and after ``instrument``; and after ``uninstrument``."""
    before = dist.new_group(group_desc="before")
    logger.set_current_iteration(iteration)
    allreduce_instrumentation.instrument(logger)
    during = changed_of_torch()
    groups = {"world": dist.group.WORLD, "before": before, "after": dist.new_group(group_desc="after")}
    for name, group in groups.items():
        with logger.label(name):
            call_each(group)
    with logger.label("monitored"):
        dist.monitored_barrier()
    allreduce_instrumentation.uninstrument()
    logger.set_current_iteration(iteration + 1)
    for group in groups.values():
        call_each(group)
    allreduce_instrumentation.instrument(logger)
    logger.set_current_iteration(iteration + 2)
    dist.all_reduce(torch.ones(5), group=before)
    allreduce_instrumentation.uninstrument()
    return {
        "during": during,
        "after": changed_of_torch(),
    }


def call_each(group: Any) -> None:
    ones = torch.ones(5)
    dist.all_reduce(ones, group=group)
    dist.all_reduce(ones, group=group, async_op=True).wait()
    all_gather_single(torch.zeros(5 * size), ones, group=group)
    reduce_scatter_single(torch.zeros(5), torch.ones(5 * size), group=group)
    dist.broadcast(ones, group_src=1, group=group)
    dist.barrier(group)
    with dist._coalescing_manager(group):
        dist.all_reduce(ones, group=group)
        dist.all_reduce(ones, group=group)
    if rank == 0:
        dist.send(ones, group_dst=1, group=group)
    else:
        dist.recv(ones, group=group)


def class_after_use() -> Any:
    allreduce_instrumentation.uninstrument()  # in vain, and harmless
    return changed_of_torch()


OTHERS: dict[str, Callable[[int], Any]] = {
    "labelled": labelled,
    "in the middle": in_the_middle,
    "no_sync": no_sync,
    "two models": two_models,
    "waiting in a hook": waiting_in_a_hook,
    "sharded": sharded,
}


def all_of_it(untimed: dict[str, list[float]]) -> dict[str, Any]:
    results: dict[str, Any] = {"not initialised": not_initialised, "trainings": trainings(untimed)}
    checks = {**OTHERS, "calls": calls} if BY_INSTRUMENT else OTHERS
    for number, (name, check) in enumerate(checks.items(), start=len(CASES)):
        logger.set_current_iteration(-1)
        results[name] = {"found": check(number * A_TRAINING), "iteration": number * A_TRAINING}
    logger.set_current_iteration(-1)
    results["refused"] = refused()
    results["changed at the end"] = class_after_use()
    return {**results, "rows": rows()}


untimed = untimed_trainings()
found: dict[str, Any] = {}
for way in WAYS:
    BY_INSTRUMENT = way == "instrument"
    if found:
        logger.close()
        sink = MemorySink()
        logger = TimingLogger(rank, None, sinks=[sink])
    if not BY_INSTRUMENT:
        # in a part of the store of its own: under the old names a rank finds where the others listened before
        store = dist.PrefixStore("timed", dist.distributed_c10d._get_default_store())
        dist.destroy_process_group()
        allreduce_instrumentation.init_process_group(
            "gloo", timing_logger=logger, store=store, rank=rank, world_size=size
        )
    found[way] = all_of_it(untimed)
everyone: list[Any] = [None] * size
dist.all_gather_object(everyone, found)
if rank == 0:
    print("\nRESULTS " + json.dumps(everyone), flush=True)
dist.destroy_process_group()
logger.close()
