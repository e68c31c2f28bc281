"""The tables as a page, ``docs/verdict-accuracy.md``; what was written there by hand is kept."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from verdict_accuracy.figures import (
    COLUMNS,
    Results,
    calibration,
    known,
    least_found,
    median_percent,
    percent,
    worst_lines,
)
from verdict_accuracy.noise import NOISES
from verdict_accuracy.simulation import Scenario
from verdict_accuracy.targets import standings

MISSED = "## What is missed, and why"
TO_WRITE = (
    "(Nothing has been written here yet. Text under this heading is kept when the tables are made anew.)"
)

INTRODUCTION = """\
# How good the verdicts are

{worst}

`stragglers` is asked who is slow in {n_runs} simulated runs in which that is known, {seeds} of each line below (three times
as many of healthy ones, up to 64 ranks), 200 steps each unless a line says otherwise. Nothing in them was measured: real
machines have noise that nobody has thought of, and these figures are no promise for them. They say which answers can be relied
on, and how far a change of the analysis makes them better or worse.

    make bench-verdicts                                                 # everything, and this page
    make bench-verdicts BENCH_ARGS="--quick --seeds 6"                  # a glance, in a terminal
    make bench-verdicts BENCH_ARGS="--only 'pipeline.*last stage'"      # lines whose name matches

"""

SIMULATED = """\
## What is simulated

Every run is played twice with the same random numbers, as it went and with the culprits healthy; the difference in length is
what the fault truly costs. Each rank has a clock of its own, thousands of seconds off. A step takes about 100 ms, a tenth of it in
transfers.

| who works how | |
|---|---|
| data-parallel | DATA, FORWARD, BACKWARD, a blocking ALLREDUCE of all, OPTIMIZER |
| halo | the same, and between FORWARD and BACKWARD each rank exchanges messages with two neighbours, in the same group |
| sharded | as FSDP: four layers, each gathered before its work, gradients reduced and scattered behind it |
| tensor-parallel | teams of four reduce after every layer, inside FORWARD and BACKWARD; then equal places of all teams reduce |
| pipeline | four stages, eight micro-batches, 1F1B, then a reduce-scatter in each stage; the roles are stated |

| noise | |
|---|---|
{noises}

Beside it each single piece of work varies by 1%, each transfer by 5%.

| fault | |
|---|---|
| slow 20% | one rank takes 1.2 times as long for all its work, from the first step to the last |
| window 50% | one rank, in 60 steps in a row |
| sporadic pauses | one rank stands still for 60 ms in 30% of the steps, anywhere |
| two: 20% and 10% | two ranks at once |
| half a host 15% | eight of the 16 ranks of one host |
| last stage 40% | all ranks of the last pipeline stage: right is `role` |
| slow link, slow link later | all transfers of one rank take 20 times as long, always or in the last 60% of the steps: right is \
`communication` |
| all ranks 50% | all are slower in the last 60% of the steps: right is `group-wide` |

Where the collectives of a team are not logged, nothing tells its ranks apart in FORWARD and BACKWARD: right is to say "one of
these four", or nobody.

## How it is counted

Columns are percentages of the runs of a line, errors are medians. `costs`: what the fault truly costs, as a part of the run; below 1%
nobody needs to be named. `exactly`: the right verdict, with exactly the culprits; of a healthy run, `healthy`, and judged.
`probably`: `suspect`, and the first suspect holds a culprit and is a minority of the ranks; or only culprits are named, but not
all of them, or as if they were slow where their link is. `wrong name`: an innocent is named. `wrong suspect`: the
first suspect holds no culprit. `other verdict`: any other that names nobody, as `diffuse`. `false alarm`: a name or a suspect in a
healthy run. `window error`: the greater error of its two ends. `cost error`: of `cost_ms`, against the truth.

Two rules that people use instead, on the same runs. `score < 0.75`: the least median of all ranks' own work / a rank's own
median, as in NVIDIA's resiliency extension. `least all-reduce`: the rank with the least time in collectives is waited for; it always
names somebody.

"""


def write(path: Path, results: Results, seeds: int) -> None:
    """The page, made anew around what stands under its heading ``MISSED``."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    kept = re.search(rf"^{re.escape(MISSED)}\n(.*?)(?=^## |\Z)", before, re.MULTILINE | re.DOTALL)
    missed = kept[1].strip() if kept else TO_WRITE
    path.write_text("\n".join(_lines(results, seeds, missed)).rstrip() + "\n", encoding="utf-8")


def _lines(results: Results, seeds: int, missed: str) -> Iterator[str]:
    n_runs = sum(map(len, results.values()))
    yield INTRODUCTION.format(worst=worst_sentence(results), n_runs=n_runs, seeds=seeds)
    yield from ("## To reach", "", *_targets(results), "")
    yield from (MISSED, "", missed, "")
    yield from ("## The worst lines", "", *_worst(results), "")
    noises = "\n".join(f"| {name} | {_first_line(of)} |" for name, of in NOISES.items())
    yield SIMULATED.format(noises=noises)
    yield from ("## Likelihoods", "", *_likelihoods(results), "")
    yield from _tables(results)


def _first_line(function: object) -> str:
    return (inspect.getdoc(function) or "").splitlines()[0]


def worst_sentence(results: Results) -> str:
    """The line in which most innocents are named, and the one in which a costly fault is found least."""
    named = worst_lines(results, "wrong_name", 1)
    missed = least_found(results, 1)
    alarmed = (
        f"**At worst an innocent is named in {named[0][1]:.0f}% of the runs ({named[0][0]})"
        if named
        else "**In no run an innocent is named"
    )
    found = f", and a fault that matters is found in {missed[0][1]:.0f}% ({missed[0][0]})" if missed else ""
    return f"{alarmed}{found}.**"


def _targets(results: Results) -> Iterator[str]:
    yield from ("| | bound | worst line | |", "|---|---|---|---|")
    for one in standings(results):
        yield f"| {one.words} | {one.bound} | {one.figure:.1f}%, {one.where} | {'met' if one.is_met else '**missed**'} |"


def _worst(results: Results) -> Iterator[str]:
    columns = (
        ("an innocent is named", worst_lines(results, "wrong_name", 8)),
        ("an innocent is suspected", worst_lines(results, "wrong_suspect", 8)),
        ("least is found of what costs 1% or more", least_found(results, 8)),
    )
    yield from ("| line | where | % of runs |", "|---|---|---|")
    for words, lines in columns:
        yield from (f"| {words} | {scenario} | {figure:.0f} |" for scenario, figure in lines)
    claims = [outcome for outcomes in results.values() for outcome in outcomes]
    if known(claims, "claimed"):
        yield from (
            "",
            f"False alarms say that they cost {median_percent(claims, 'claimed'):.1f}% of the run (median).",
        )


def _likelihoods(results: Results) -> Iterator[str]:
    bins = calibration(results)
    if not bins:
        yield "No verdict stated one."
        return
    yield from ("| stated | suspects | stated on average | right |", "|---|---|---|---|")
    yield from (f"| {b.low:.2f} to {b.high:.2f} | {b.n} | {b.stated:.2f} | {b.right:.2f} |" for b in bins)


def _tables(results: Results) -> Iterator[str]:
    by_kind = groupby(sorted(results, key=_place(results)), key=lambda one: (one.architecture, one.logged))
    for (architecture, logged), lines in by_kind:
        yield from (f"## {architecture.capitalize()}, {logged}", "")
        yield "| noise | fault | ranks | runs | " + " | ".join(column.heading for column in COLUMNS) + " |"
        yield "|" + "---|" * (4 + len(COLUMNS))
        yield from (_row(one, results) for one in lines)
        yield ""


def _place(results: Results):  # type: ignore[no-untyped-def]
    """Tables in the order in which they were tried, lines within them too."""
    kinds = list(dict.fromkeys((one.architecture, one.logged) for one in results))
    order = {one: i for i, one in enumerate(results)}
    return lambda one: (kinds.index((one.architecture, one.logged)), order[one])


def _row(one: Scenario, results: Results) -> str:
    fault = one.fault if one.steps == 200 else f"{one.fault}, {one.steps} steps"
    first = (one.noise, fault, str(one.ranks), str(len(results[one])))
    return "| " + " | ".join([*first, *(column.shown(results[one]) for column in COLUMNS)]) + " |"
