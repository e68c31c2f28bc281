"""Simulates training runs: makes tables as ``read_timings`` returns, of ranks whose true speeds are known.

A step of a data-parallel run is a row of operations, with an all-reduce before the last one, which no rank
leaves before all have entered. A pipeline passes micro-batches down its stages and back, each stage waiting
for its neighbour, and then reduces over the ranks of each stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from timing_logger.schema.record import COLUMNS

Floats = npt.NDArray[np.float64]

OPERATIONS_MS = {"DATA": 2.0, "FORWARD": 10.0, "BACKWARD": 20.0, "OPTIMIZER": 3.0}
TRANSFER_MS = 1.5
CLOCK_OFFSETS_S = 1000.0
"""The difference between the clocks of neighbouring ranks, in s: code that compares clocks will fail."""

_INTEGERS = ["iteration", "epoch", "message_size_bytes", "group_size", "seq", "peer"]
_TEXTS = {
    "layer_name": "",
    "phase": "train",
    "clock": "host",
    "group": "",
    "thread": "MainThread",
    "status": "ok",
    "stream": "",
}


def factors(iterations: int, ranks: int, noise: float = 0.0, seed: int = 0, memory: float = 0.0) -> Floats:
    """Return what the usual times are multiplied by, as steps x ranks: 1, with lognormal noise.

    Args:
        iterations: the number of steps.
        ranks: the number of ranks.
        noise: sigma of the noise.
        seed: the seed of the noise.
        memory: the correlation of the noise in one step with that in the next.
    """
    drawn = np.random.default_rng(seed).normal(0.0, noise, (iterations, ranks))
    for step in range(1, iterations):
        drawn[step] = memory * drawn[step - 1] + (1 - memory**2) ** 0.5 * drawn[step]
    return np.exp(drawn)


def data_parallel(
    factor: Floats,
    *,
    operations_ms: Mapping[str, float] = OPERATIONS_MS,
    slow_operations: Sequence[str] = (),
    noise: float = 0.0,
    seed: int = 1,
    logged: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the table of a data-parallel run, in which all ranks do the same.

    Args:
        factor: what the times of the slow operations are multiplied by, as steps x ranks.
        operations_ms: the usual time of each operation in ms; the last one comes after the all-reduce.
        slow_operations: the operations to which ``factor`` applies. Default: all.
        noise: sigma of lognormal noise of each single operation.
        seed: the seed of the noise.
        logged: the operations that are recorded. Default: all.
    """
    rng = np.random.default_rng(seed)
    times_ms = {
        name: usual
        * np.exp(rng.normal(0.0, noise, factor.shape))
        * (factor if name in (slow_operations or operations_ms) else 1)
        for name, usual in operations_ms.items()
    }
    return of_operations(times_ms, logged=logged)


def of_operations(
    times_ms: Mapping[str, Floats],
    *,
    logged: Sequence[str] | None = None,
    transfer_ms: Floats | None = None,
) -> pd.DataFrame:
    """Return the table of a run of these operations.

    Args:
        times_ms: the times of each operation, as steps x ranks; the last one comes after the all-reduce.
        logged: the operations that are recorded. Default: all.
        transfer_ms: for each step how long the all-reduce takes; by default always as long.
    """
    *before, last = times_ms
    n_steps, n_ranks = times_ms[last].shape
    rows: list[dict[str, Any]] = []
    now = np.zeros(n_ranks)
    for step in range(n_steps):
        for name in before:
            rows.append(_row(name, step, now, times_ms[name][step]))
            now = now + times_ms[name][step]
        done = now.max() + (TRANSFER_MS if transfer_ms is None else transfer_ms[step])
        rows.append(_row("ALLREDUCE", step, now, done - now, group="world", group_size=n_ranks, seq=step))
        now = np.full(n_ranks, done)
        rows.append(_row(last, step, now, times_ms[last][step]))
        now = now + times_ms[last][step]
    return _table(rows, logged)


def on_hosts(timings: pd.DataFrame, size: int = 8) -> pd.DataFrame:
    """Return a run with the sidecars of its ranks, ``size`` of which run on a host."""
    timings.attrs["files"] = [
        {"rank": rank, "sidecar": {"host": f"node{rank // size}"}}
        for rank in timings["rank"].unique().tolist()
    ]
    return timings


def with_work(timings: pd.DataFrame, operation: str, work: Floats) -> pd.DataFrame:
    """Return a table whose rows of an operation, one in each step, state how much there was to do.

    Args:
        timings: the table.
        operation: the operation.
        work: how much, as steps x ranks.
    """
    stated = timings.assign(work=np.nan)
    chosen = stated["operation"] == operation
    of_rows = stated.loc[chosen]
    stated.loc[chosen, "work"] = work[of_rows["iteration"].astype(int), of_rows["rank"].astype(int)]
    return stated


def of_groups(transfer_ms: Floats, *, work_ms: float | Floats = 10.0, size: int = 2) -> pd.DataFrame:
    """Return the table of a run in which ranks work, and then each group of them reduces by itself.

    Args:
        transfer_ms: the time of each transfer after the last rank came, as steps x groups.
        work_ms: the time that each rank works in a step.
        size: the number of ranks in a group.
    """
    n_steps, n_groups = transfer_ms.shape
    now = np.zeros(size * n_groups)
    works_ms = np.broadcast_to(work_ms, now.shape)
    rows: list[dict[str, Any]] = []
    for step in range(n_steps):
        rows.append(_row("FORWARD", step, now, works_ms))
        now = now + works_ms
        for group, took_ms in enumerate(transfer_ms[step]):
            members = np.arange(group * size, (group + 1) * size)
            named = {"group": f"group {group}", "group_size": size, "seq": step, "message_size_bytes": 10**6}
            done = now[members].max() + took_ms
            rows.append(_row("ALLREDUCE", step, now[members], done - now[members], members, **named))
            now[members] = done
    return _table(rows, None)


def misplaced(timings: pd.DataFrame, rank: int, up_to_ms: float, seed: int) -> pd.DataFrame:
    """Return a table in which the rows of a rank are some random time too late: its clock is no clock."""
    its = timings["rank"] == rank
    late_s = np.random.default_rng(seed).uniform(0, up_to_ms / 1e3, int(its.sum()))
    columns = ["start_counter", "end_counter"]
    timings.loc[its, columns] = timings.loc[its, columns].to_numpy() + late_s[:, None]
    return timings


def pipeline(
    factor: Floats, stages: int, *, micro_batches: int = 4, noise: float = 0.0, seed: int = 1
) -> tuple[pd.DataFrame, dict[int, str]]:
    """Return the table of a pipeline run, and the role of each rank.

    Args:
        factor: what a rank's times are multiplied by, as steps x ranks; rank = stage * width + replica.
        stages: the number of stages; each has ranks / stages replicas, its width.
        micro_batches: the number of micro-batches in a step.
        noise: sigma of lognormal noise of each single piece of work.
        seed: the seed of the noise.
    """
    n_steps, n_ranks = factor.shape
    width = n_ranks // stages
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    now = np.zeros(n_ranks)
    for step in range(n_steps):
        for operation, usual, order in (("FORWARD", 5.0, 1), ("BACKWARD", 10.0, -1)):
            arrived = np.zeros((micro_batches, width))
            for stage in range(stages)[::order]:
                columns = np.arange(stage * width, (stage + 1) * width)
                upstream = columns - order * width
                for batch in range(micro_batches):
                    if stage != (0 if order == 1 else stages - 1):
                        wait = np.maximum(arrived[batch] - now[columns], 0.0) + 0.1
                        rows.append(
                            _row("RECV", step, now[columns], wait, columns, peer=upstream, group="world")
                        )
                        now[columns] += wait
                    work = usual * factor[step, columns] * np.exp(rng.normal(0.0, noise, width))
                    rows.append(_row(operation, step, now[columns], work, columns))
                    now[columns] += work
                    arrived[batch] = now[columns]
        for stage in range(stages):
            columns = np.arange(stage * width, (stage + 1) * width)
            done = now[columns].max() + TRANSFER_MS
            rows.append(
                _row("REDUCE_SCATTER", step, now[columns], done - now[columns], columns,
                     group=f"stage{stage}", group_size=width, seq=step)
            )  # fmt: skip
            now[columns] = done
    roles = {rank: f"stage {rank // width}" for rank in range(n_ranks)}
    return _table(rows, None), roles


def _row(
    operation: str, step: int, start_ms: Floats, elapsed_ms: Floats, ranks: Any = None, **fields: Any
) -> dict[str, Any]:
    """Return the rows of one operation on several ranks."""
    ranks = np.arange(len(elapsed_ms)) if ranks is None else ranks
    return {
        "operation": operation, "iteration": step, "rank": ranks, "start_ms": start_ms,
        "elapsed_ms": elapsed_ms, **fields,
    }  # fmt: skip


def _table(rows: Sequence[Mapping[str, Any]], logged: Sequence[str] | None) -> pd.DataFrame:
    """Return the table of these rows, made of whole arrays: tests make hundreds of tables."""
    kept = [row for row in rows if logged is None or row["operation"] in logged]
    lengths = [len(row["rank"]) for row in kept]
    rank = _column(kept, lengths, "rank")
    by_rank = np.argsort(rank, kind="stable")
    rank = rank[by_rank]
    start_s = _column(kept, lengths, "start_ms")[by_rank] / 1000 + CLOCK_OFFSETS_S * (1 + rank)
    elapsed_ms = _column(kept, lengths, "elapsed_ms")[by_rank]
    stated: dict[str, Any] = {
        "timestamp": pd.Series(pd.Timestamp("2026-02-06", tz="UTC"), range(len(rank))),
        "start_counter": start_s, "end_counter": start_s + elapsed_ms / 1000,
        "rank": rank, "incarnation": np.ones(len(rank), np.int64), "work": np.full(len(rank), np.nan),
    }  # fmt: skip
    columns = {
        name: stated[name] if name in stated else _column(kept, lengths, name)[by_rank]
        for name in (*COLUMNS, "rank", "incarnation")
    }
    return pd.DataFrame(columns).astype(dict.fromkeys(_INTEGERS, "Int64"))


def _column(rows: Sequence[Mapping[str, Any]], lengths: Sequence[int], name: str) -> Any:
    """Return the values of a column, one row after the other."""
    blank = _TEXTS.get(name, np.nan)
    values = [row.get(name, blank) for row in rows]
    if any(isinstance(value, np.ndarray) for value in values):
        return np.concatenate([np.full(n, value) for value, n in zip(values, lengths, strict=True)])
    return np.repeat(np.array(values, object if isinstance(blank, str) else None), lengths)
