"""Training done three ways: over torch's own groups, over these under ``instrument()``, over timed ones.

What a variant leaves behind is told as hashes of bytes, step by step, so that a single bit that
differs is found; and the rows of its steps, so that it is known to have been timed.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from allreduce_instrumentation import init_process_group, instrument, uninstrument
from timing_logger.recording.logger import TimingLogger
from timing_logger.sinks.memory import MemorySink

PLAIN, INSTRUMENTED, TIMED = WAYS = ("plain", "instrumented", "timed")

_LIMIT = timedelta(seconds=30)  # of a collective: one rank that fails must not keep the others

_kept: list[dist.ProcessGroup] = []
"""The groups of all variants, until the program ends.

A communication hook may leave closures that hold their group with gloo's threads, which release them at some
time. A gloo thread that releases a group for the last time ends the process: it would wait for itself.
"""

torch.set_num_threads(1)
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class Run:
    """One variant of training under way, one way.

    Attributes:
        way: one of ``WAYS``.
        logger: where rows go; it is off when nothing is timed.
        own_logger: for what notes rows by itself, over whatever group; never off.
        sink: what holds the rows.
        store: for messages between the ranks that no group carries.
        steps: of each step the loss, and the hashes of gradients and parameters.
        notes: whatever else must be the same.
        marks: what is looked at in one way by itself, such as instants.
    """

    def __init__(self, way: str, store: dist.Store) -> None:
        self.way = way
        self.store = store
        self.sink = MemorySink()
        self.logger = TimingLogger(rank, None, sinks=[self.sink], enabled=way != PLAIN)
        self.own_logger = self.logger if self.logger.enabled else TimingLogger(rank, None, sinks=[self.sink])
        self.steps: list[list[str]] = []
        self.notes: dict[str, Any] = {}
        self.marks: dict[str, Any] = {}

    def watch(self, model: nn.Module | None = None) -> None:
        """What a user calls for a model, or for groups, that are there already."""
        if self.way == INSTRUMENTED:
            instrument(self.logger, model)

    def begin_step(self) -> None:
        for logger in (self.logger, self.own_logger):
            logger.set_current_iteration(len(self.steps) + 1)

    def end_step(self, model: nn.Module, loss: Tensor | float) -> None:
        """Before the gradients are let go."""
        gradients = [p.grad for p in model.parameters()]
        self.steps.append([float(loss).hex(), digest(gradients), digest(model.parameters())])

    def note(self, name: str, tensors: Iterable[Tensor | None]) -> None:
        self.notes[name] = digest(tensors)


Variant = Callable[[Run], None]


def digest(tensors: Iterable[Tensor | None]) -> str:
    """A hash of the bytes of all these tensors, or of this rank's parts of them."""
    content = hashlib.sha256()
    for tensor in tensors:
        content.update(b"none" if tensor is None else _bytes(tensor))
    return content.hexdigest()[:16]


def _bytes(tensor: Tensor) -> bytes:
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    flat = local.detach().contiguous().view(-1)
    return str((local.dtype, tuple(local.shape))).encode() + flat.view(torch.uint8).numpy().tobytes()


def run_all(variants: Mapping[str, Variant]) -> None:
    """Run every variant every way, and print what all ranks found out."""
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(host, port, is_master=False, timeout=_LIMIT)
    found: dict[str, Any] = {name: {} for name in variants}
    gc.freeze()  # what was imported is not looked through again after each variant
    for way in WAYS:
        for name, variant in variants.items():
            found[name][way] = _run(way, variant, dist.PrefixStore(f"{way}/{name}", store))
    everyone = _gathered(found, dist.PrefixStore("results", store))
    if rank == 0:
        print("\nRESULTS " + json.dumps(everyone), flush=True)


def _run(way: str, variant: Variant, store: dist.Store) -> dict[str, Any]:
    start = perf_counter()
    run = Run(way, dist.PrefixStore("messages", store))
    options: dict[str, Any] = {"store": store, "rank": rank, "world_size": size, "timeout": _LIMIT}
    if way == TIMED:
        init_process_group("gloo", timing_logger=run.logger, **options)
    else:
        dist.init_process_group("gloo", **options)
    error = ""
    try:
        variant(run)
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    uninstrument()
    gc.collect()  # models and works end before their group
    _kept.extend(dist.distributed_c10d._world.pg_map)
    dist.destroy_process_group()
    run.logger.close()
    run.own_logger.close()
    return {
        "error": error[:1000],
        "steps": run.steps,
        "notes": run.notes,
        "marks": run.marks,
        "rows": _rows(run.sink),
        "seconds": round(perf_counter() - start, 2),
    }


def _rows(sink: MemorySink) -> list[list[Any]]:
    """Of the steps of training, in the order of their beginnings; construction is before the first."""
    records = sorted((r for r in sink.records if r.iteration), key=lambda r: r.start_ns)
    return [
        [r.iteration, r.operation, r.message_size_bytes, r.group, r.seq, r.status, r.layer_name,
         r.start_ns, r.end_ns]
        for r in records
    ]  # fmt: skip


def _gathered(mine: dict[str, Any], store: dist.Store) -> list[Any]:
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=_LIMIT)
    everyone: list[Any] = [None] * size
    dist.all_gather_object(everyone, mine)
    dist.destroy_process_group()
    return everyone
