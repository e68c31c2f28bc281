"""How good the verdicts on slow ranks are: simulated runs in which it is known who is slow.

Each line is a scenario: who works how with whom, what of it is logged, how ranks differ by chance, what is
wrong, how many ranks there are. ``docs/verdict-accuracy.md`` says what is simulated, and how it is counted.

Run: python benchmarks/verdicts.py [--seeds N] [--quick] [--only REGEX] [--write docs/verdict-accuracy.md]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import time
from collections.abc import Iterator, Sequence
from itertools import groupby, product
from pathlib import Path

from verdict_accuracy import page
from verdict_accuracy.cells import repetitions, scenarios
from verdict_accuracy.figures import (
    Column,
    Results,
    calibration,
    columns_of,
    known,
    least_found,
    median_percent,
    worst_lines,
)
from verdict_accuracy.reach import costs_off, least_fine, made_with, reached
from verdict_accuracy.scoring import Outcome, scored
from verdict_accuracy.simulation import STEPS, Scenario, simulate
from verdict_accuracy.targets import standings

from timing_logger.analysis import stragglers
from timing_logger.words.verdict import verdict_sentence

WIDTH = 72


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seeds", type=int, default=30, help="runs of a line; three times that of healthy ones"
    )
    parser.add_argument("--quick", action="store_true", help="at most 64 ranks, fewer classes of noise")
    parser.add_argument("--only", default="", metavar="REGEX", help="lines whose name has a match")
    parser.add_argument("--steps", type=int, help=f"of every run; {STEPS} unless a line says otherwise")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--show", action="store_true", help="show every run's truth and verdict instead")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the page; figures also go to data/")
    arguments = parser.parse_args()
    chosen = [one for one in scenarios(quick=arguments.quick) if re.search(arguments.only, str(one))]
    if arguments.steps:
        chosen = list(dict.fromkeys(one._replace(steps=arguments.steps) for one in chosen))
    if not chosen:
        parser.error(f"no line matches {arguments.only!r}")
    if arguments.show:
        for task in product(chosen, range(arguments.seeds)):
            print("\n".join(shown(*task)), flush=True)
        return
    results = tried(chosen, arguments.seeds, arguments.processes)
    print("\n".join(summary(results)))
    if arguments.write:
        page.write(arguments.write, results)


def tried(chosen: Sequence[Scenario], seeds: int, processes: int) -> Results:
    """Run all scenarios and return their outcomes; figures are printed as soon as they are known."""
    begin, results, columns = time.perf_counter(), {}, None
    tasks = [(one, seed) for one in chosen for seed in range(repetitions(one, seeds))]
    print(f"{len(chosen)} lines, {len(tasks)} runs", flush=True)
    with multiprocessing.Pool(processes) as pool:
        done = zip(tasks, pool.imap(outcome_of, tasks), strict=True)
        for scenario, pairs in groupby(done, key=lambda pair: pair[0][0]):
            results[scenario] = [outcome for _, outcome in pairs]
            if columns != (columns := columns_of(scenario)):
                print(heading(columns), flush=True)
            shown = "".join(f"{column.shown(results[scenario]):>9}" for column in columns)
            print(f"{scenario!s:{WIDTH}}{shown}", flush=True)
    print(f"{time.perf_counter() - begin:.0f} s")
    return results


def heading(columns: Sequence[Column]) -> str:
    """Return the line above a table in the terminal."""
    return f"{'medians, and % of runs':{WIDTH}}" + "".join(f"{column.short:>9}" for column in columns)


def outcome_of(task: tuple[Scenario, int]) -> Outcome:
    """Simulate one run, and return the outcome of the verdict on it."""
    run = simulate(*task)
    return scored(stragglers(run.timings, roles=run.roles), run)


def shown(scenario: Scenario, seed: int) -> Iterator[str]:
    """Yield what is true of one run, and the verdict on it."""
    run = simulate(scenario, seed)
    verdict = stragglers(run.timings, roles=run.roles)
    truth, ranks = run.truth, ", ".join(map(str, sorted(run.truth.ranks)))
    yield f"\n{scenario}, run {seed}: {'right or acceptable' if scored(verdict, run).fine else 'WRONG'}"
    when = "" if truth.first is None else f" of ranks {ranks} in steps {truth.first} to {truth.last}"
    yield f"  true: {truth.kind}{when}; {run.cost_ms / 1000:.2f} s, {run.cost_ms / run.run_ms:.1%} of the run"
    yield f"  {verdict_sentence(verdict)}"


def summary(results: Results) -> Iterator[str]:
    """Yield the lines of the summary: targets, worst lines, and the calibration of likelihoods."""
    yield f"\n{made_with(results)}\n\nTo reach"
    for target in standings(results):
        stands = f"{'met   ' if target.is_met else 'MISSED'} {target.figure:6.2f}%, {target.bound}"
        yield f"  {stands}: {target.words} ({target.where})"
    for goal, figure in reached(results):
        stands = "met   " if goal.is_met(figure) else "MISSED"
        yield f"  {stands} {figure:6.2f}%, {goal.bound_in_words}: {goal.words}"
    for words, lines in (
        ("An innocent is named", worst_lines(results, "wrong_name", 10)),
        ("An innocent is suspected", worst_lines(results, "wrong_suspect", 10)),
        ("Least is found of what costs 1% or more", least_found(results, 10)),
    ):
        yield from (f"\n{words}", *(f"  {figure:5.1f}%  {scenario}" for scenario, figure in lines))
    for words, lines in (
        ("Least is right or acceptable, of kinds of jobs", least_fine(results, 20)),
        ("Stated cost / true cost, of kinds of jobs", costs_off(results, 20)),
    ):
        yield from (f"\n{words}", *(f"  {figure:6.2f}  {scenario}" for scenario, figure in lines))
    everything = [outcome for outcomes in results.values() for outcome in outcomes]
    if known(everything, "claimed"):
        yield f"\nFalse alarms claim {median_percent(everything, 'claimed'):.1f}% of the run (median)"
    yield "\nLikelihoods of first suspects"
    for one in calibration(results):
        yield f"  {one.low:.2f} to {one.high:.2f}: {one.n}, stated {one.stated:.2f}, right {one.right:.2f}"


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
