"""The parts of the benchmark, by name: each makes the lines of a table, of few jobs or of many."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from live_runs import accuracy, delay, false_alarms, real_delay, size, training_cost

_WORKERS = 2
_PICTURE = Path(__file__).parents[2] / "docs/live.png"

T = TypeVar("T")
R = TypeVar("R")


def _delay(quick: bool) -> Iterator[str]:
    chosen, n_jobs = delay.cells(quick=quick), 2 if quick else 30
    tasks = [(cell, seed) for cell in chosen for seed in range(delay.jobs_of(cell, n_jobs))]
    found = _side_by_side(delay.delay_of, tasks)
    delays = {cell: [one for (of, _), one in zip(tasks, found, strict=True) if of == cell] for cell in chosen}
    yield from delay.lines(list(delays.items()))


def _size(quick: bool) -> Iterator[str]:
    found = list(size.sizes(size.QUICK_RANKS if quick else size.RANKS))
    yield from size.lines(found)
    if not quick:
        size.draw(_PICTURE, found)


def _real_delay(quick: bool) -> Iterator[str]:
    yield from real_delay.lines_of_slow([real_delay.slow_rank() for _ in range(1 if quick else 10)])


def _hang(quick: bool) -> Iterator[str]:
    yield from real_delay.lines_of_hangs([real_delay.hang() for _ in range(1 if quick else 10)])


def _accuracy(quick: bool) -> Iterator[str]:
    yield from accuracy.lines(_side_by_side(accuracy.told_of, accuracy.tasks(quick=quick)))


def _alarms(quick: bool) -> Iterator[str]:
    hours = false_alarms.QUICK_HOURS if quick else false_alarms.HOURS
    found = _side_by_side(false_alarms.alarms, false_alarms.tasks(hours))
    yield from false_alarms.lines(hours, [alarm for alarms in found for alarm in alarms])


def _busy(quick: bool) -> Iterator[str]:
    length_s = 40.0 if quick else 300.0
    yield from real_delay.lines_of_alarms(length_s, real_delay.alarms_while_busy(length_s))


def _cost(quick: bool) -> Iterator[str]:
    pairs = 1 if quick else 12
    yield from training_cost.lines(
        training_cost.measure(training, 2, pairs, apart)
        for apart in (False, True)
        for training in training_cost.TRAININGS
    )


def _side_by_side(function: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
    with multiprocessing.Pool(_WORKERS) as pool:
        return pool.map(function, tasks, chunksize=1)


PARTS: dict[str, Callable[[bool], Iterator[str]]] = {
    "delay": _delay,
    "real delay": _real_delay,
    "hang": _hang,
    "accuracy": _accuracy,
    "alarms": _alarms,
    "busy": _busy,
    "size": _size,
    "cost": _cost,
}
"""What is measured; each is told whether it is to be quick."""
