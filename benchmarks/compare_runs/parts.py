"""The parts of the benchmark, by name: each makes the lines of a table, of few comparisons or of many."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from compare_runs import jobs, real, simulated
from timing_logger.results.run_summary import RunSummary

_WORKERS = 2
_N_JOBS, _QUICK_JOBS = 50, 2
_N_RUNS = {"none": 24, "sleep": 24, "garbage": 5, "bytes": 5, "rank": 5}


class Options(NamedTuple):
    """What was asked for.

    Attributes:
        quick: fewer runs and comparisons.
        runs: the folder of real runs, which stay there.
    """

    quick: bool
    runs: Path

    @property
    def n_tries(self) -> int:
        """How many comparisons are made."""
        return 50 if self.quick else 500


def _alike(options: Options) -> Iterator[str]:
    yield from simulated.lines_of_alike(_simulated(options.quick), 2 * options.n_tries)


def _slower(options: Options) -> Iterator[str]:
    yield from simulated.lines_of_slower(_simulated(options.quick), options.n_tries)


def _real(options: Options) -> Iterator[str]:
    yield from real.lines(_recorded(options), options.n_tries)


def _causes(options: Options) -> Iterator[str]:
    yield from real.lines_of_causes(_recorded(options), options.n_tries // 10)


def _jobs(options: Options) -> Iterator[str]:
    yield from jobs.lines(jobs.jobs(options.runs / "jobs", _QUICK_JOBS if options.quick else _N_JOBS))


@cache
def _simulated(quick: bool) -> list[RunSummary]:
    with multiprocessing.Pool(_WORKERS) as pool:
        return pool.map(
            simulated.simulated, range(simulated.QUICK_RUNS if quick else simulated.N_RUNS), chunksize=4
        )


@cache
def _recorded(options: Options) -> real.Pool:
    n_runs = {change: max(6, n // 2) if options.quick else n for change, n in _N_RUNS.items()}
    return real.recorded(options.runs, n_runs)


PARTS: dict[str, Callable[[Options], Iterator[str]]] = {
    "alike": _alike,
    "slower": _slower,
    "real": _real,
    "causes": _causes,
    "jobs": _jobs,
}
"""What is measured."""
