"""Any number of ranks: DistributedOptimizer with compressed gradients beside the dense one."""

from __future__ import annotations

from typing import Any

import torch
from _ranks import recording, report
from _training import (
    MY_INPUTS,
    MY_TARGETS,
    SMALL_BUCKETS,
    WORLD,
    distance,
    error_of,
    fingerprint,
    loss_of,
    mlp,
    rank,
    size,
)
from torch.optim import SGD

from allreduce_instrumentation import FP16, DistributedOptimizer, NoCompression, TopK
from timing_logger import TimingLogger

STEPS = 5
SPARSE = ("topk", "gtopk", "oktopk")


def optimizer_of(model: torch.nn.Module, **options: Any) -> DistributedOptimizer:
    options.setdefault("bucket_bytes", SMALL_BUCKETS)
    return DistributedOptimizer(SGD(model.parameters(), lr=0.1), model.named_parameters(), WORLD, **options)


def trained(steps: int = STEPS, **options: Any) -> torch.nn.Module:
    model = mlp(seed=rank)
    optimizer = optimizer_of(model, **options)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model, MY_INPUTS, MY_TARGETS).backward()
        optimizer.step()
    optimizer.stop()
    return model


def beside_dense() -> dict[str, Any]:
    """Distances between parameters after training, and whether all ranks have the same ones."""
    dense = trained()
    ways: dict[str, Any] = {
        "none": {"compression": NoCompression()},
        "fp16": {"compression": FP16()},
        **{f"{name}, all": {"compression": TopK(1.0), "allreduce": name} for name in SPARSE},
        **{f"{name}, some": {"compression": TopK(0.3), "allreduce": name} for name in SPARSE},
    }
    models = {way: trained(**options) for way, options in ways.items()}
    return {
        "distance": {way: distance(model, dense) for way, model in models.items()},
        "same": {way: fingerprint(model.parameters()) for way, model in models.items()},
        "moved": distance(dense, mlp(0)),
    }


def rows() -> dict[str, Any]:
    found = {}
    for name in SPARSE:
        with recording() as (logger, records):
            trained(1, compression=TopK(0.5), allreduce=name, timing_logger=logger)
        found[name] = sorted(
            {(r.operation, r.layer_name, r.phase) for r in records if r.layer_name != "initial parameters"}
        )
    return found


def resumed() -> list[list[float]]:
    """Residuals belong to a checkpoint: with them two halves make a whole."""
    whole = trained(compression=TopK(0.2), allreduce="topk", steps=6)
    model, saved = mlp(seed=rank), None
    for _ in range(2):
        optimizer = optimizer_of(model, compression=TopK(0.2), allreduce="topk")
        if saved is not None:
            optimizer.compression.load_state_dict(saved)
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(model, MY_INPUTS, MY_TARGETS).backward()
            optimizer.step()
        saved = optimizer.compression.state_dict()
        optimizer.stop()
    return [fingerprint(whole.parameters()), fingerprint(model.parameters())]


def not_finite() -> dict[str, Any]:
    """One rank's gradient is NaN: all ranks stop at the same step, none waits."""
    found = {}
    for name in SPARSE:
        model = mlp(seed=rank)
        optimizer = optimizer_of(model, compression=TopK(0.5), allreduce=name, timeout_s=30.0)
        loss = loss_of(model, MY_INPUTS, MY_TARGETS)
        (loss * float("nan") if rank == size - 1 else loss).backward()
        found[name] = [error_of(optimizer.step), error_of(optimizer.step)]
        optimizer.stop()
    return found


def wrong_settings() -> dict[str, Any]:
    model = mlp(0)
    return {
        "dense with top-k": error_of(lambda: optimizer_of(model, compression=TopK(0.1))),
        "top-k without": error_of(lambda: optimizer_of(model, allreduce="topk")),
        "unknown": error_of(lambda: optimizer_of(model, allreduce="ring")),
        "a class": error_of(lambda: optimizer_of(model, compression=TopK, allreduce="topk")),
        "different densities": error_of(
            lambda: optimizer_of(model, compression=TopK(0.1 if rank else 0.2), allreduce="topk")
        ),
        "different all-reduces": error_of(
            lambda: optimizer_of(model, compression=TopK(0.1), allreduce=SPARSE[min(rank, 1)])
        ),
        "different buckets": error_of(lambda: optimizer_of(model, bucket_bytes=1000 + rank)),
    }


def off() -> int:
    with recording(enabled=False) as (logger, records):
        assert isinstance(logger, TimingLogger)
        trained(1, compression=TopK(0.5), allreduce="gtopk", timing_logger=logger)
    return len(records)


SCENARIOS = (beside_dense, rows, resumed, not_finite, wrong_settings, off)
report({scenario.__name__: scenario() for scenario in SCENARIOS})
