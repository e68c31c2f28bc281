"""Makes summaries of runs to compare, and log folders of runs that differ in one thing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from simulated_runs import OPERATIONS_MS, data_parallel, factors
from timing_files import write_table

from timing_logger.analysis.comparison.run_summary import Quantity, RunSummary, Verdict

PARTS_MS = {"own work": 80.0, "not timed": 5.0, "transfer": 10.0, "waiting": 5.0}


def quantity(
    operation: str, mean_ms: float, *, kind: str = "operation", rank: int | None = None, layer: str = "",
    n_rows: float = 1.0, n_bytes: float | None = None,
) -> Quantity:  # fmt: skip
    return Quantity(kind, operation, "", "", layer, rank, mean_ms, mean_ms, n_rows, n_bytes)


def summary(
    factor: float = 1.0,
    *others: Quantity,
    parts_ms: Mapping[str, float] = PARTS_MS,
    verdict: Verdict | None = None,
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
