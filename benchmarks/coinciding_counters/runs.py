"""Simulates runs of ranks that work, and then reduce: who is late, when, and by how much."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.float64]

Course = Literal["throughout", "from then on", "for a while", "now and then", "coming and going"]
"""When the slow rank is slow."""

COURSES: tuple[Course, ...] = (
    "throughout",
    "from then on",
    "for a while",
    "now and then",
    "coming and going",
)

CLOCK_OFFSETS_S = 1000.0
"""The difference between the clocks of neighbouring ranks: code that compares clocks will fail."""

TRANSFER_MS = 1.5
NOISE = 0.03


class Run(NamedTuple):
    """A simulated run.

    Attributes:
        timings: the table, as ``read_timings`` returns it.
        delay_ms: by how much each rank was delayed in each step, steps x ranks.
        begin_s, end_s: when each rank worked in each step, steps x ranks, on its own axis.
    """

    timings: pd.DataFrame
    delay_ms: Floats
    begin_s: Floats
    end_s: Floats


def simulated(
    rng: np.random.Generator, *, n_ranks: int = 4, run_s: float = 120.0, step_ms: float = 250.0,
    course: Course | None = None, times_as_long: float = 1.4, rank: int = 2,
) -> Run:  # fmt: skip
    """Return a run.

    Args:
        rng: the chance.
        n_ranks: the number of ranks.
        run_s: how long the run lasts if no rank is slow, in seconds.
        step_ms: how long a rank works in a usual step.
        course: when a rank is slow; None if none is.
        times_as_long: how many times as long it works then.
        rank: the slow rank.
    """
    n_steps = max(30, round(1e3 * run_s / step_ms))
    own_ms = step_ms * np.exp(rng.normal(0.0, NOISE, (n_steps, n_ranks)))
    delay_ms = np.zeros_like(own_ms)
    if course is not None:
        slow = slow_steps(rng, course, n_steps)
        drawn = np.exp(rng.normal(0.0, 0.2, n_steps))
        delay_ms[slow, rank] = (step_ms * (times_as_long - 1) * drawn)[slow]
    return lived(own_ms, delay_ms)


def slow_steps(rng: np.random.Generator, course: Course, n_steps: int) -> npt.NDArray[np.bool_]:
    """Tell of each step whether the rank is slow."""
    step = np.arange(n_steps)
    if course == "throughout":
        return np.ones(n_steps, np.bool_)
    if course == "from then on":
        return step >= rng.uniform(0.2, 0.7) * n_steps
    if course == "for a while":
        begin, part = rng.uniform(0.1, 0.5), rng.uniform(0.2, 0.4)
        return (step >= begin * n_steps) & (step < (begin + part) * n_steps)
    if course == "now and then":
        return rng.uniform(size=n_steps) < 0.15
    changes = np.cumsum(rng.uniform(size=n_steps) < 10 / n_steps)
    return changes % 2 == 1


def slow_transfers(
    rng: np.random.Generator, *, n_ranks: int = 4, run_s: float = 120.0, step_ms: float = 250.0
) -> Run:
    """Return a run in which the network is slow in each second tenth."""
    n_steps = max(30, round(1e3 * run_s / step_ms))
    own_ms = step_ms * np.exp(rng.normal(0.0, NOISE, (n_steps, n_ranks)))
    drawn = rng.exponential(0.4 * step_ms, n_steps)
    late_ms = np.where(np.arange(n_steps) * 10 // n_steps % 2, drawn, 0.0)
    run = lived(own_ms, np.zeros_like(own_ms), late_ms)
    return run._replace(delay_ms=late_ms[:, None] * np.ones(n_ranks))


def lived(own_ms: Floats, delay_ms: Floats, transfer_ms: Floats | float = 0.0) -> Run:
    """Return the run of ranks that work for so long in each step, and then reduce.

    Args:
        own_ms, delay_ms: how long each rank works in each step, and how much longer, steps x ranks.
        transfer_ms: how much longer than usual each step's transfer takes.
    """
    n_ranks = own_ms.shape[1]
    works_ms = own_ms + delay_ms
    done_ms = np.cumsum(works_ms.max(axis=1) + TRANSFER_MS + transfer_ms)
    begin_ms = np.concatenate([[0.0], done_ms[:-1]])[:, None] + np.zeros(n_ranks)
    end_ms = begin_ms + works_ms
    offset_s = CLOCK_OFFSETS_S * (1 + np.arange(n_ranks))
    begin_s, end_s = begin_ms / 1e3 + offset_s, end_ms / 1e3 + offset_s
    left_s = done_ms[:, None] / 1e3 + offset_s
    rows = pd.concat([_rows("FORWARD", begin_s, end_s), _rows("ALLREDUCE", end_s, left_s)])
    communicates = rows["operation"] == "ALLREDUCE"
    rows["group"] = np.where(communicates, "world", "")
    rows["group_size"] = np.where(communicates, n_ranks, np.nan)
    rows["seq"] = np.where(communicates, rows["iteration"], np.nan)
    rows = rows.sort_values(["rank", "start_counter"], kind="stable").reset_index(drop=True)
    return Run(rows, delay_ms, begin_s, end_s)


def _rows(operation: str, begin_s: Floats, end_s: Floats) -> pd.DataFrame:
    n_steps, n_ranks = begin_s.shape
    return pd.DataFrame({
        "operation": operation, "iteration": np.repeat(np.arange(n_steps), n_ranks),
        "rank": np.tile(np.arange(n_ranks), n_steps), "incarnation": 1, "status": "ok", "clock": "host",
        "thread": "MainThread", "start_counter": begin_s.ravel(), "end_counter": end_s.ravel(),
        "elapsed_ms": 1e3 * (end_s - begin_s).ravel(),
    })  # fmt: skip


def late_in_turn(
    rng: np.random.Generator, *, n_ranks: int = 4, run_s: float = 120.0, step_ms: float = 250.0,
    each_second: bool = True,
) -> Run:  # fmt: skip
    """Return a run in which every rank is late now and then, each in other steps.

    Args:
        rng: the chance.
        n_ranks: the number of ranks.
        run_s: how long the run lasts if no rank is late, in seconds.
        step_ms: how long a rank works in a usual step.
        each_second: whether a rank is late in any step; else a rank at a time, for some steps in succession.
    """
    n_steps = max(30, round(1e3 * run_s / step_ms))
    own_ms = step_ms * np.exp(rng.normal(0.0, NOISE, (n_steps, n_ranks)))
    late_ms = 0.6 * step_ms * rng.exponential(1.0, (n_steps, n_ranks))
    if not each_second:
        whose = rng.integers(0, n_ranks, n_steps // 5 + 1).repeat(5)[:n_steps]
        late_ms *= whose[:, None] == np.arange(n_ranks)
    return lived(own_ms, late_ms)


def all_slower(
    rng: np.random.Generator, *, n_ranks: int = 4, run_s: float = 120.0, step_ms: float = 250.0
) -> Run:
    """Return a run in which all ranks become slower at once, at some time."""
    n_steps = max(30, round(1e3 * run_s / step_ms))
    own_ms = step_ms * np.exp(rng.normal(0.0, NOISE, (n_steps, n_ranks)))
    slow = np.arange(n_steps) >= rng.uniform(0.3, 0.7) * n_steps
    return lived(own_ms, 0.5 * step_ms * slow[:, None] * np.ones(n_ranks))
