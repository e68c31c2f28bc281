"""Simulates host counters: those that have nothing to do with what is slow, and the one that has."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from coinciding_counters.runs import Floats, Run
from timing_logger.results.cause import COUNTERS
from timing_logger.schema.host_counters import Counter

INTERVAL_S = 1.0

_USUAL_CLOCK_MHZ = 3000.0


def host_table(run: Run, rng: np.random.Generator, planted: str | None = None) -> pd.DataFrame:
    """Return the table of host counters of a run, as ``read_host_counters`` returns it.

    All counters that may show a cause are in it, and each has a course of its own that nothing delays.

    Args:
        run: the run.
        rng: the chance.
        planted: the counter that shows what delays the slow rank; None if none does.
    """
    n_ranks = run.delay_ms.shape[1]
    of_edges, of_planted = (np.random.default_rng(seed) for seed in rng.integers(2**32, size=2))
    edges_s = [_edges(run, rank, of_edges) for rank in range(n_ranks)]
    n = min(len(one) for one in edges_s) - 1
    columns = {counter.name: _unrelated(counter, rng, n, n_ranks) for _, counter in COUNTERS}
    if planted is not None:
        counter = next(one for _, one in COUNTERS if one.name == planted)
        delayed_s = np.stack(
            [_delayed_s(run, rank, edges_s[rank][: n + 1]) for rank in range(n_ranks)], axis=1
        )
        columns[planted] = _shown(counter, delayed_s, of_planted)
    busy = rng.choice([1.0, 3.0, 6.0])  # more tasks than cores would have to do with waiting for a processor
    columns["runnable_tasks"] = busy + rng.normal(0, 0.5, (n, n_ranks))
    columns["usable_cores"] = np.full((n, n_ranks), 8.0)
    return pd.concat([
        pd.DataFrame({
            "rank": rank, "incarnation": 1, "start_counter": edges_s[rank][:n],
            "end_counter": edges_s[rank][1 : n + 1], **{name: one[:, rank] for name, one in columns.items()},
        })
        for rank in range(n_ranks)
    ], ignore_index=True)  # fmt: skip


def _edges(run: Run, rank: int, rng: np.random.Generator) -> Floats:
    """Return when the intervals of a rank begin: about a second apart, at no round instant."""
    begin_s, end_s = run.begin_s[0, rank] - rng.uniform(0, 1), run.end_s[-1, rank] + 1
    n = int((end_s - begin_s) / INTERVAL_S) + 1
    return begin_s + INTERVAL_S * np.arange(n) + rng.normal(0.0, 0.01, n)


def _delayed_s(run: Run, rank: int, edges_s: Floats) -> Floats:
    """Return for how long a rank was delayed in each interval, in seconds: at the end of its work."""
    until_s = np.stack([run.end_s[:, rank] - run.delay_ms[:, rank] / 1e3, run.end_s[:, rank]], axis=1).ravel()
    after_s = np.cumsum(run.delay_ms[:, rank]) / 1e3
    sums_s = np.stack([after_s - run.delay_ms[:, rank] / 1e3, after_s], axis=1).ravel()
    return np.diff(np.interp(edges_s, until_s, sums_s))


def _shown(counter: Counter, delayed_s: Floats, rng: np.random.Generator) -> Floats:
    """Return what a counter shows of delays: nearly all of them, and a little that is none."""
    stated_s = delayed_s * rng.uniform(0.85, 1.05, delayed_s.shape) + rng.exponential(0.002, delayed_s.shape)
    if counter.reading == "waited us":
        return 1e6 * stated_s
    if counter.reading == "level":  # what is delayed runs at the lower clock all the time
        return _USUAL_CLOCK_MHZ * (1 - np.clip(stated_s / INTERVAL_S, 0.0, 0.9))
    if counter.reading == "bits":
        return np.where(delayed_s > 0.03, 0x40, 0.0)
    return rng.poisson(2000 * stated_s).astype(np.float64)


# -- what has nothing to do with it --------------------------------------------------------------------------


def _unrelated(counter: Counter, rng: np.random.Generator, n: int, n_ranks: int) -> Floats:
    """Return the course of a counter on all ranks: noise that lasts, trends, steps; alike on all, or not."""
    of_all = _course(rng, n)[:, None] * rng.choice([0.0, 0.0, 1.0])
    course = of_all + np.stack([_course(rng, n) for _ in range(n_ranks)], axis=1)
    if counter.reading == "waited us":  # mostly some percent of the time, now and then a third of it
        level = rng.choice([0.002, 0.02, 0.1], p=[0.6, 0.3, 0.1]) * np.exp(rng.normal(0.0, 0.3, n_ranks))
        return 1e6 * np.clip(level * np.exp(course), 0.0, 0.95)
    if counter.reading == "level":
        return _USUAL_CLOCK_MHZ * np.clip(1 - 0.05 * np.abs(course), 0.2, 1.0)
    if counter.reading == "bits":
        return np.where(course > 1.0, rng.choice([0x01, 0x04, 0x40]), 0.0)
    return rng.poisson(rng.choice([0.1, 3.0, 300.0]) * np.exp(np.clip(course, -5, 5))).astype(np.float64)


def _course(rng: np.random.Generator, n: int) -> Floats:
    """Return a series of about unit spread: it follows itself, drifts, or changes its level."""
    kind = rng.choice(["lasting", "trend", "steps", "bursts"])
    if kind == "lasting":
        return lasting(rng, n, rng.choice([0.0, 0.5, 0.9, 0.98]))
    if kind == "trend":
        return np.linspace(-1.5, 1.5, n) * rng.choice([-1, 1]) + 0.3 * lasting(rng, n, 0.5)
    if kind == "steps":
        levels = np.cumsum(rng.uniform(size=n) < rng.choice([1, 3, 10]) / n)
        return rng.normal(0.0, 1.0, n + 1)[levels] + 0.2 * rng.normal(size=n)
    return 2.0 * (rng.uniform(size=n) < 0.1) + 0.3 * rng.normal(size=n)


def lasting(rng: np.random.Generator, n: int, memory: float) -> Floats:
    """Return noise of unit spread of which each value remembers the one before by this much."""
    drawn: npt.NDArray[np.float64] = rng.normal(0.0, 1.0, n)
    for at in range(1, n):
        drawn[at] = memory * drawn[at - 1] + (1 - memory**2) ** 0.5 * drawn[at]
    return drawn
