"""How often a cause is stated by chance, and how often the true one is: simulated runs with host counters.

All counters that may show a cause are there, and each has a course of its own: noise that lasts, trends,
steps, bursts, alike on all ranks or not. Then one of them shows what delays the slow rank.

Run: python benchmarks/causes_by_chance.py [--runs N] [--only REGEX] [--show]
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import zlib
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np
from coinciding_counters.hosts import host_table
from coinciding_counters.runs import COURSES, Run, all_slower, late_in_turn, simulated, slow_transfers

from timing_logger.analysis import stragglers
from timing_logger.results.cause import COUNTERS

STEPS_MS = (40.0, 250.0, 2000.0)
RUNS_S = (60.0, 120.0, 400.0)
PLANTED = ("throttled_us", "main_run_queue_wait_us", "cpu_mhz", "io_pressure_full_us")


class Kind(NamedTuple):
    """A kind of run: who is slow in it, and the counter that shows why, if any does."""

    name: str
    make: Callable[..., Run]
    planted: bool

    def __str__(self) -> str:
        return f"{self.name}, {'the cause among the counters' if self.planted else 'unrelated counters'}"


def _healthy(rng: np.random.Generator, **of_run: float) -> Run:
    return simulated(rng, course=None, **of_run)


def _slow(rng: np.random.Generator, **of_run: float) -> Run:
    course, times = COURSES[rng.integers(len(COURSES))], rng.choice([1.2, 1.4, 2.0])
    rank = int(rng.integers(int(of_run["n_ranks"])))
    return simulated(rng, course=course, times_as_long=times, rank=rank, **of_run)


def _in_turn(rng: np.random.Generator, **of_run: float) -> Run:
    return late_in_turn(rng, each_second=bool(rng.integers(2)), **of_run)


KINDS = (
    Kind("no rank is slow", _healthy, False),
    Kind("one rank is slow", _slow, False),
    Kind("ranks are late in turn", _in_turn, False),
    Kind("all become slower", all_slower, False),
    Kind("transfers are slow at times", slow_transfers, False),
    Kind("one rank is slow", _slow, True),
    Kind("ranks are late in turn", _in_turn, True),
    Kind("all become slower", all_slower, True),
    Kind("transfers are slow at times", slow_transfers, True),
)


class Outcome(NamedTuple):
    """What was said of a run: the verdict, the cause that was stated, and the true one."""

    verdict: str
    stated: str
    true: str
    how: str
    of_run: str


def outcome(kind: Kind, seed: int) -> Outcome:
    rng = np.random.default_rng([zlib.crc32(str(kind).encode()), seed])
    step_ms, run_s = rng.choice(STEPS_MS), rng.choice(RUNS_S)
    run = kind.make(rng, step_ms=step_ms, run_s=run_s, n_ranks=int(rng.choice([2, 4, 8, 16])))
    planted = str(rng.choice(PLANTED)) if kind.planted else None
    verdict = stragglers(run.timings, host=host_table(run, rng, planted))
    true = next((cause.name for cause, counter in COUNTERS if counter.name == planted), "")
    stated, how = (
        (verdict.cause.name, f"{verdict.cause.how} {verdict.cause.counter}") if verdict.cause else ("", "")
    )
    return Outcome(
        verdict.verdict,
        stated,
        true,
        how,
        f"{step_ms:.0f} ms, {run_s:.0f} s, {run.delay_ms.shape[1]} ranks {verdict.window}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200, help="of each kind")
    parser.add_argument("--only", default="", metavar="REGEX", help="kinds whose name has a match")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--show", action="store_true", help="show each run in which something else is stated")
    arguments = parser.parse_args()
    with multiprocessing.Pool(arguments.processes) as pool:
        for kind in (one for one in KINDS if re.search(arguments.only, str(one))):
            found = pool.starmap(outcome, product([kind], range(arguments.runs)))
            print(line(kind, found), flush=True)
            if arguments.show:
                print("\n".join(f"    {one}" for one in found if one.stated != one.true))


def line(kind: Kind, found: list[Outcome]) -> str:
    """Return how often the true cause was stated, another one, and none, where time was found to be lost.

    A verdict that finds nothing asks for no cause; if that is said of all runs, they all count.
    """
    found = [one for one in found if one.verdict != "healthy"] or found
    right = sum(bool(one.true) and one.stated == one.true for one in found)
    wrong = sum(bool(one.stated) and one.stated != one.true for one in found)
    n = len(found)
    return f"{kind}: true cause {right / n:.1%}, another {wrong / n:.1%}, none {(n - right - wrong) / n:.1%}"


if __name__ == "__main__":
    main()
