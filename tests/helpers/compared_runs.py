"""Makes summaries of runs to compare, and log folders of runs that differ in one thing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from simulated_runs import OPERATIONS_MS, data_parallel, factors
from timing_files import write_table

from timing_logger.results.comparison import Comparison, Side, StepChange
from timing_logger.results.run_summary import Course, Quantity, RunSummary, SummarizedVerdict

PARTS_MS = {"own work": 80.0, "not timed": 5.0, "transfer": 10.0, "waiting": 5.0}
STEP = StepChange(
    ms=110.0, against_ms=100.0, change=0.1, low=0.05, high=0.15, p=0.001, spread=0.02, finds=0.03,
    runs_needed=4,
)  # fmt: skip


def quantity(
    operation: str, mean_ms: float, *, kind: str = "operation", rank: int | None = None, layer: str = "",
    n_rows: float = 1.0, n_bytes: float | None = None,
) -> Quantity:  # fmt: skip
    return Quantity(kind, operation, "", "", layer, rank, mean_ms, mean_ms, n_rows, n_bytes)


def summary(
    factor: float = 1.0,
    *others: Quantity,
    parts_ms: Mapping[str, float] = PARTS_MS,
    verdict: SummarizedVerdict | None = None,
    **fields: object,
) -> RunSummary:
    """Return the summary of a run whose parts take these times, all of them multiplied by a factor."""
    parts = [quantity(name, factor * ms, kind="account") for name, ms in parts_ms.items()]
    step_ms = factor * sum(parts_ms.values())
    known = {"n_ranks": 2, "n_steps": 90, "n_warm_up": 10, "world_size": 2}
    return RunSummary(
        **{**known, **fields},  # type: ignore[arg-type]
        step_mean_ms=step_ms, step_median_ms=step_ms, quantities=[*parts, *others], verdict=verdict,
    )  # fmt: skip


def side(n: int = 3, n_units: int | None = None, **fields: object) -> Side:
    """Return a side of so many runs that are alike, each with these fields."""
    return Side([summary(**fields)] * n, n if n_units is None else n_units)  # type: ignore[arg-type]


def comparison(step: Mapping[str, Any] | None = None, **fields: Any) -> Comparison:
    """Return a comparison that shows a slowdown by 10%, not one of these runs; arguments change it."""
    plain: dict[str, Any] = {
        "verdict": "regressed", "why": "", "basis": "step", "parts": (), "bound": 0.03, "paired": False,
        "in_batches": False, "causes": (), "differences": (), "courses": None, "since": None, "unlike": (),
        "order": "", "here": side(), "against": side(),
    }  # fmt: skip
    return Comparison(step=STEP._replace(**(step or {})), **{**plain, **fields})


def course(
    ms: Sequence[float], *, first: int = 0, width: int = 4, n_steps: int = 4, counted_by: str = "iterations"
) -> Course:
    """Return the course of a run whose stretches have these medians."""
    begins = [first + width * at for at in range(len(ms))]
    return Course(counted_by, width, begins, list(ms), [n_steps] * len(ms))


def noisy(n: int, sigma: float, seed: int, slower: float = 0.0) -> list[RunSummary]:
    """Return so many runs, whose lengths are spread like this, and which take longer by a part."""
    drawn = np.random.default_rng(seed).normal(0.0, sigma, n)
    return [summary(float(one) * (1 + slower)) for one in np.exp(drawn)]


def write_runs(
    folder: Path, n: int, *, noise: float = 0.01, seed: int = 0, longer_ms: Mapping[str, float] | None = None,
    n_steps: int = 40,
) -> list[Path]:  # fmt: skip
    """Write folders of so many runs of two ranks, whose lengths are spread by ``noise``.

    Args:
        folder: gets a folder for each run.
        n: how many runs.
        noise: the standard deviation of the logarithm of their lengths.
        seed: of the noise.
        longer_ms: by how many ms operations take longer than usual.
        n_steps: how many steps a run has.
    """
    drawn = np.exp(np.random.default_rng(seed).normal(0.0, noise, n))
    usual_ms = {name: ms + (longer_ms or {}).get(name, 0.0) for name, ms in OPERATIONS_MS.items()}
    made = []
    for place, factor in enumerate(drawn.tolist()):
        operations_ms = {name: factor * ms for name, ms in usual_ms.items()}
        table = data_parallel(
            factors(n_steps, 2, noise=0.02, seed=100 * seed + place), operations_ms=operations_ms
        )
        table.loc[table["operation"] == "ALLREDUCE", "message_size_bytes"] = 1_000_000
        made.append(write_table(folder / f"run{place}", table))
    return made


def differing(
    n: int, seed: int, more: float = 0.0, *, n_operations: int = 3, name: str = "OP", runs: str = "run",
    later: float = 1.0,
) -> list[RunSummary]:  # fmt: skip
    """Return so many runs that have operations, layers, ranks, a course, and what sidecars state.

    Args:
        n, seed: how many runs, and the seed of their noise.
        more: how many ms operations take longer, some more than others, and each rank after the first.
        n_operations: how many operations.
        name, runs: what the names of operations and runs begin with.
        later: by which factor steps take longer in the second half of the run.
    """
    rng = np.random.default_rng(seed)
    return [
        replace(
            _differing(float(factor), more, n_operations, name, later), run_id=f"{runs}{at}", hosts=["node0"],
            began_unix_ns=1_790_000_000_000_000_000 + (60 * at + seed) * 1_000_000_000, commit="c0ffee" * 6,
        )
        for at, factor in enumerate(np.exp(rng.normal(0.0, 0.004, n)))
    ]  # fmt: skip


def _differing(factor: float, more: float, n_operations: int, name: str, later: float) -> RunSummary:
    operations = [
        quantity(f"{name}{one}", factor * (10.0 + more * (one % 5)), n_bytes=1e6, layer=layer, kind=kind)
        for one in range(n_operations)
        for kind, layer in (("operation", ""), ("layer", f"{name}.weight"))
    ]
    ranks = [quantity("own work", factor * (40.0 + more * rank), kind="rank", rank=rank) for rank in (0, 1)]
    parts_ms = {**PARTS_MS, "not timed": PARTS_MS["not timed"] + 2 * more}
    levels = [factor * 100.0 * (later if one >= 10 else 1.0) for one in range(20)]
    return summary(factor, *operations, *ranks, parts_ms=parts_ms, course=course(levels, first=12))
