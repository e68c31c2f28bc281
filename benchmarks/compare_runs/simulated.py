"""Simulated runs that differ by more than their steps do: how often equal programs are told apart, and
others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.stats import beta
from verdict_accuracy.simulation import Scenario, simulate

from timing_logger.analysis.comparison.compare import compare_runs
from timing_logger.analysis.comparison.summarize_run import summarize_run
from timing_logger.results.run_summary import RunSummary

SCENARIO = Scenario("data-parallel", "all rows", "correlated", "healthy", 4, 100)
"""Four ranks whose own times differ by 4% from step to step, with memory."""

N_RUNS, QUICK_RUNS = 200, 40
_SLOWER = 0.05
_OF_PART = 0.5
"""Each part of a step has noise of its own from run to run, half as large as that of the whole run."""

_MOST_FALSE, _LEAST_FOUND = 0.01, 0.9


class Noise(NamedTuple):
    """How runs of one program differ.

    Attributes:
        sigma: the standard deviation of the logarithm of their length.
        disturbed: the part of the runs that take longer, by up to 30%, as beside another job.
    """

    sigma: float
    disturbed: float = 0.0

    def __str__(self) -> str:
        disturbed = f"; {self.disturbed:.0%} of the runs disturbed" if self.disturbed else ""
        return f"{self.sigma:.1%}{disturbed}"


CASES = (
    *((Noise(sigma), (5, 5)) for sigma in (0.005, 0.01, 0.015, 0.03, 0.08)),
    (Noise(0.01, 0.1), (5, 5)),
    (Noise(0.015), (3, 3)),
    (Noise(0.015), (10, 10)),
)
"""How runs differ, and how many there are of each side."""


def simulated(seed: int) -> RunSummary:
    """Return the summary of a run, without what makes runs differ."""
    return summarize_run(simulate(SCENARIO, seed).timings)


def scaled(run: RunSummary, factor: float, rng: np.random.Generator, sigma: float) -> RunSummary:
    """Return the summary of a run that takes longer by a factor, and each part by one of its own."""
    factors = {name: factor * float(np.exp(rng.normal(0.0, sigma))) for name in _names(run)}
    quantities = [one._replace(mean_ms=one.mean_ms * factors[one.operation]) for one in run.quantities]
    parts_ms = [
        sum(one.mean_ms for one in of if one.kind == "account") for of in (run.quantities, quantities)
    ]
    longer = parts_ms[1] / parts_ms[0]
    return replace(
        run, quantities=quantities, step_mean_ms=run.step_mean_ms * longer,
        step_median_ms=run.step_median_ms * longer,
    )  # fmt: skip


def _names(run: RunSummary) -> list[str]:
    return sorted({one.operation for one in run.quantities})


class Tried(NamedTuple):
    """How often runs were called slower, of so many comparisons."""

    n: int
    slower: int
    faster: int


def compared(
    pool: Sequence[RunSummary], noise: Noise, sides: tuple[int, int], slower: float, n_tries: int
) -> Tried:
    """Compare runs of one program with those of one that takes longer by a part, again and again."""
    rng = np.random.default_rng(
        [int(1e4 * noise.sigma), int(100 * noise.disturbed), sides[0], round(1e3 * abs(slower))]
    )
    n_slower = n_faster = 0
    for _ in range(n_tries):
        drawn = rng.choice(len(pool), sum(sides), replace=False)
        runs = [scaled(pool[at], _factor(rng, noise), rng, _OF_PART * noise.sigma) for at in drawn.tolist()]
        ours = [scaled(run, 1 + slower, rng, 0.0) for run in runs[: sides[0]]]
        verdict = compare_runs(ours, runs[sides[0] :]).verdict
        n_slower += verdict == "regressed"
        n_faster += verdict == "improved"
    return Tried(n_tries, n_slower, n_faster)


def _factor(rng: np.random.Generator, noise: Noise) -> float:
    disturbed = 1 + rng.uniform(0.0, 0.3) if rng.random() < noise.disturbed else 1.0
    return float(np.exp(rng.normal(0.0, noise.sigma)) * disturbed)


def lines_of_alike(pool: Sequence[RunSummary], n_tries: int) -> Iterator[str]:
    """Yield how often runs of one program are called slower than others of it."""
    yield "| runs lie apart | of each side | comparisons | called slower | 95% sure | at most 1% | faster |"
    yield "|---|---|---|---|---|---|---|"
    for noise, sides in CASES:
        found = compared(pool, noise, sides, 0.0, n_tries)
        most = beta.ppf(0.95, found.slower + 1, found.n - found.slower)
        is_met = "met" if found.slower <= _MOST_FALSE * found.n else "**missed**"
        told = f"{found.n} | {found.slower} | at most {most:.1%} | {is_met} | {found.faster}"
        yield f"| {noise} | {sides[0]} | {told} |"


def lines_of_slower(pool: Sequence[RunSummary], n_tries: int) -> Iterator[str]:
    """Yield how often a program is called slower that is 5% slower."""
    yield "| runs lie apart | of each side | comparisons | called slower | 90% of them |"
    yield "|---|---|---|---|---|"
    for noise, sides in CASES:
        found = compared(pool, noise, sides, _SLOWER, n_tries)
        is_met = "met" if found.slower >= _LEAST_FOUND * found.n else "missed"
        yield f"| {noise} | {sides[0]} | {found.n} | {found.slower / found.n:.1%} | {is_met} |"
