"""How good the verdicts on slow ranks are: simulated runs in which it is known who is slow.

Each line of the tables is a scenario: who works how with whom, what of it is logged, by what chance ranks
differ, what is wrong, and how many ranks there are. ``docs/verdict-accuracy.md`` holds them.

Run: python benchmarks/verdicts.py [--seeds N] [--quick] [--only REGEX] [--write docs/verdict-accuracy.md]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from verdict_accuracy.cells import repetitions, scenarios
from verdict_accuracy.figures import Results, calibration, median, percent, standings, worst_lines
from verdict_accuracy.scoring import Outcome, scored
from verdict_accuracy.simulation import STEPS, Scenario, simulate

from timing_logger.analysis import stragglers

WIDTH = 72


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seeds", type=int, default=30, help="runs of each line; three times as many of healthy ones"
    )
    parser.add_argument("--quick", action="store_true", help="at most 64 ranks, fewer kinds of noise")
    parser.add_argument("--only", default="", metavar="REGEX", help="lines whose name has this in it")
    parser.add_argument("--steps", type=int, help=f"of the runs; {STEPS} unless a line says otherwise")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", type=Path, metavar="FILE", help="the tables as a page")
    arguments = parser.parse_args()
    chosen = [one for one in scenarios(quick=arguments.quick) if re.search(arguments.only, str(one))]
    if arguments.steps:
        chosen = list(dict.fromkeys(one._replace(steps=arguments.steps) for one in chosen))
    if not chosen:
        parser.error(f"no line has {arguments.only!r} in its name")
    results = tried(chosen, arguments.seeds, arguments.processes)
    show_summary(results)


def tried(chosen: Sequence[Scenario], seeds: int, processes: int) -> Results:
    """The outcomes of each scenario; its figures are printed as soon as they are known."""
    begin, results = time.perf_counter(), {}
    tasks = [(one, seed) for one in chosen for seed in range(repetitions(one, seeds))]
    print(f"{len(chosen)} lines, {len(tasks)} runs\n{HEADING}", flush=True)
    with multiprocessing.Pool(processes) as pool:
        done = zip(tasks, pool.imap(outcome_of, tasks), strict=True)
        for scenario, pairs in groupby(done, key=lambda pair: pair[0][0]):
            results[scenario] = [outcome for _, outcome in pairs]
            print(f"{scenario!s:{WIDTH}}{figures(results[scenario])}", flush=True)
    print(f"{time.perf_counter() - begin:.0f} s")
    return results


def outcome_of(task: tuple[Scenario, int]) -> Outcome:
    """One run, judged."""
    run = simulate(*task)
    return scored(stragglers(run.timings, roles=run.roles), run)


COLUMNS = {
    "exact": "exact", "probable": "prob", "wrong_name": "wrong", "wrong_suspect": "wr.sus", "other": "other",
    "false_alarm": "alarm", "not_judged": "unjud",
}  # fmt: skip
RULES = {"nvrx_exact": "nvrx", "nvrx_wrong": "wrong", "least_exact": "least", "least_wrong": "wrong"}
HEADING = (
    f"{'% of runs':{WIDTH}}"
    + "".join(f"{name:>7}" for name in COLUMNS.values())
    + f"{'window':>8}{'cost':>7} |"
    + "".join(f"{name:>7}" for name in RULES.values())
)


def figures(outcomes: Sequence[Outcome]) -> str:
    """One line of figures, under ``HEADING``."""
    ours = "".join(f"{percent(outcomes, field):7.1f}" for field in COLUMNS)
    errors = f"{median(outcomes, 'window_error_steps'):8.1f}{100 * median(outcomes, 'cost_error'):7.1f}"
    return f"{ours}{errors} |" + "".join(f"{percent(outcomes, field):7.1f}" for field in RULES)


def show_summary(results: Results) -> None:
    for line in summary(results):
        print(line)


def summary(results: Results) -> Iterator[str]:
    """The targets and the worst lines."""
    yield "\nTo reach"
    for standing in standings(results):
        yield (
            f"  {'met   ' if standing.is_met else 'MISSED'} {standing.figure:6.2f}% ({standing.bound}) "
            f"{standing.words}; worst: {standing.where}"
        )
    for field, words in (("wrong_name", "wrong names"), ("wrong_suspect", "wrong suspects")):
        yield f"\nMost {words}"
        for scenario, share in worst_lines(results, field, 10):
            yield f"  {share:5.1f}%  {scenario}"
    everything = [outcome for outcomes in results.values() for outcome in outcomes]
    yield f"\nFalse alarms say that they cost {100 * median(everything, 'claimed'):.1f}% of the run (median)"
    yield "\nSuspects: likelihood stated, and how many were right"
    for one in calibration(results):
        yield f"  {one.low:.2f} to {one.high:.2f}: {one.n}, stated {one.mean:.2f}, right {one.right:.2f}"


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
