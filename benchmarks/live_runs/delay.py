"""How soon it is told that a rank became slow, in simulated jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from live_runs.job import Job, Slow, played
from live_runs.watching import looks

RANKS = (4, 64, 1024)
STEPS_S = (0.03, 0.3, 3.0)
SLOWER = 0.3
TARGET_S, TARGET_STEPS = 20.0, 20
"""To reach: so many seconds or so many steps, whichever is later."""

_HEALTHY_S = 45.0  # until the window is full
_MOST_S, _MOST_STEPS = 90.0, 60


class Delay(NamedTuple):
    """When a slow rank was told, since it became slow; NaN if it was not.

    Attributes:
        seconds, steps: how much later.
        n_wrong: how many events told of somebody else, or too soon.
    """

    seconds: float
    steps: float
    n_wrong: int


class Cell(NamedTuple):
    """Jobs of so many ranks and such steps."""

    n_ranks: int
    step_s: float

    @property
    def target_s(self) -> float:
        return max(TARGET_S, TARGET_STEPS * self.step_s * (1 + SLOWER))


def cells(*, quick: bool) -> list[Cell]:
    """Return all cells; ``quick`` leaves out those of more than 4 ranks, but for one."""
    found = [Cell(n_ranks, step_s) for n_ranks in RANKS for step_s in STEPS_S]
    return [one for one in found if not quick or one.n_ranks == RANKS[0] or one == Cell(64, 0.3)]


def jobs_of(cell: Cell, usual: int) -> int:
    """Return how many jobs of a cell are watched: fewer of those that take minutes each."""
    return usual if cell.n_ranks < RANKS[-1] else max(1, usual // 6)


def delay_of(task: tuple[Cell, int]) -> Delay:
    """Watch a job in which some rank becomes slow at some moment, until that is told.

    Args:
        task: which jobs, and the seed of this one.
    """
    cell, seed = task
    rng = np.random.default_rng([seed, cell.n_ranks])
    since_s = float(rng.uniform(_HEALTHY_S, _HEALTHY_S + max(5.0, cell.step_s)))
    until_s = since_s + max(_MOST_S, _MOST_STEPS * cell.step_s)
    slow = Slow(int(rng.integers(cell.n_ranks)), SLOWER, since_s)
    run = played(Job(cell.n_ranks, cell.step_s, 1.1 * until_s, seed, slow))
    began_s = float(run.met_s[run.step_at(since_s)])  # it is slow in what begins after the step under way
    n_wrong = 0
    for look in looks(run, until_s, seed):
        if look.change is None or look.change.kind == "ends":
            continue
        if look.change.verdict.ranks == (slow.rank,) and look.at_s > began_s:
            n_steps = run.step_at(look.at_s) - run.step_at(began_s)
            return Delay(look.at_s - began_s, n_steps, n_wrong)
        n_wrong += 1
    return Delay(float("nan"), float("nan"), n_wrong)


def lines(found: Sequence[tuple[Cell, Sequence[Delay]]]) -> Iterator[str]:
    """Yield a table of delays, with a line for each cell."""
    yield "| ranks | step | jobs | told | s: median | 90% | steps: median | 90% | 90% within | wrong |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for cell, delays in found:
        seconds, steps = (np.array([getattr(one, name) for one in delays]) for name in ("seconds", "steps"))
        told = ~np.isnan(seconds)
        late = np.where(told, seconds, np.inf)
        is_met = np.quantile(late, 0.9, method="higher") <= cell.target_s
        yield (
            f"| {cell.n_ranks:,} | {cell.step_s * 1000:g} ms | {len(delays)} | {told.sum()} "
            f"| {_quantiles(seconds, '.1f')} | {_quantiles(steps, '.0f')} "
            f"| {cell.target_s:g} s: {'met' if is_met else '**missed**'} "
            f"| {sum(one.n_wrong for one in delays)} |"
        )


def _quantiles(values: npt.NDArray[np.float64], shown: str) -> str:
    late = np.where(np.isnan(values), np.inf, values)
    found = [np.quantile(late, part, method="higher") for part in (0.5, 0.9)]
    return " | ".join("not told" if np.isinf(one) else format(one, shown) for one in found)
