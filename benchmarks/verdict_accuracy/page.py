"""Writes the figures of ``docs/verdict-accuracy.md``: conclusions; all lines into ``docs/data``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import _tables_of_page as tables

from verdict_accuracy.cells import scenarios
from verdict_accuracy.figures import (
    COLUMNS,
    JOB_COLUMNS,
    Bin,
    Column,
    Results,
    calibration,
    known,
    least_found,
    median_percent,
    stated_calibration,
    worst_lines,
)
from verdict_accuracy.reach import costs_off, least_fine, made_with, reached
from verdict_accuracy.simulation import ARCHITECTURES, FAULTS, NOISES, Scenario, is_job
from verdict_accuracy.speed import judging_time
from verdict_accuracy.targets import standings

KEYS = Scenario._fields
SHOWN = 2
"""So many of the worst lines of each kind are on the page."""


def write(page: Path, results: Results) -> None:
    """Write the lines that were tried into the data files, and the page if all were: it judges all together.

    A data file keeps the lines that were not tried, unless all were.
    """
    is_whole = set(results) >= set(scenarios(quick=True))
    for name, columns in (("lines", COLUMNS), ("jobs", JOB_COLUMNS)):
        file, heading = tables.data_file(page, name), [*KEYS, "runs", *(one.heading for one in columns)]
        rows = list(_rows(results, columns, of_jobs=name == "jobs"))
        if is_whole:
            tables.write_csv(file, heading, rows)
        else:
            tables.write_into_csv(file, heading, rows, len(KEYS))
    if is_whole:
        tables.write_csv(tables.data_file(page, "names"), ("kind", "name", "meaning"), names())
        heading = ("of", "from", "to", "number", "stated on average", "right")
        tables.write_csv(tables.data_file(page, "likelihoods"), heading, _likelihoods(results))
        tables.write(page, {name: list(lines(results)) for name, lines in PARTS.items()})


# -- the data files --------------------------------------------------------------------------------


def _rows(results: Results, columns: Sequence[Column], *, of_jobs: bool) -> Iterator[list[str]]:
    for one, outcomes in results.items():
        if is_job(one) == of_jobs:
            yield [*map(str, one), str(len(outcomes)), *(column.shown(outcomes) for column in columns)]


def names() -> Iterator[tuple[str, str, str]]:
    """Yield what columns are, and jobs, noises and faults whose name does not say it, by their docstrings."""
    yield from (("column", one.heading, one.meaning) for one in dict.fromkeys(COLUMNS + JOB_COLUMNS))
    plays = {name: job.play for name, job in ARCHITECTURES.items()}
    faults = {name: fault for name, fault in FAULTS.items() if not hasattr(fault, "func")}
    for kind, functions in (("job", plays), ("noise", NOISES), ("fault", faults)):
        for name, function in functions.items():
            if text := inspect.getdoc(function):
                yield kind, name, text.splitlines()[0]


def _likelihoods(results: Results) -> Iterator[list[str]]:
    named = {"named or suspected": stated_calibration(results), "first suspects": calibration(results)}
    for of, bins in named.items():
        yield from ([of, *_cells(one)] for one in bins)


def _cells(one: Bin) -> list[str]:
    return [f"{one.low:g}", f"{one.high:g}", f"{one.n}", f"{one.stated:.3f}", f"{one.right:.3f}"]


# -- the page --------------------------------------------------------------------------------------


def _worst_line(results: Results) -> Iterator[str]:
    """Yield the line in which innocents are named most, and those in which costly faults are found least."""
    named, missed = worst_lines(results, "wrong_name", 1), least_found(results, 1)
    where = f"in {named[0][1]:.0f}% of the runs ({named[0][0]})" if named else "in no run"
    yield f"**In the worst of {len(results)} lines, an innocent rank is named {where}.**"
    for scenario, figure in missed:
        yield (
            f"**A fault that costs 1% of the run or more is found least often in {scenario}: "
            f"in {figure:.0f}% of the runs.**"
        )
    yield from ("", made_with(results))


def _targets(results: Results) -> Iterator[str]:
    """Yield how all targets stand; of one that some line misses, also the worst line."""
    yield from ("| | target | reached |", "|---|---|---|")
    for one in standings(results):
        stands = "met" if one.is_met else f"**missed** in {one.where}"
        yield f"| {one.words} | {one.bound} | {one.figure:.1f}%, {stands} |"
    for goal, figure in reached(results):
        stands = "met" if goal.is_met(figure) else "**missed**"
        yield f"| {goal.words} | {goal.bound_in_words} | {figure:.1f}%, {stands} |"


def _worst(results: Results) -> Iterator[str]:
    yield from ("| what | line | |", "|---|---|---|")
    for words, lines, unit in (
        ("an innocent rank is named", worst_lines(results, "wrong_name", SHOWN), "{:.0f}%"),
        ("an innocent rank is suspected", worst_lines(results, "wrong_suspect", SHOWN), "{:.0f}%"),
        ("a fault of 1% or more is found", least_found(results, SHOWN), "{:.0f}%"),
        ("right or acceptable", least_fine(results, SHOWN), "{:.0f}%"),
        ("stated / true cost", costs_off(results, SHOWN), "{:.2f}"),
    ):
        yield from (f"| {words} | {scenario} | {unit.format(figure)} |" for scenario, figure in lines)
    claims = [outcome for outcomes in results.values() for outcome in outcomes]
    if known(claims, "claimed"):
        claimed = median_percent(claims, "claimed")
        yield from ("", f"False alarms claim to cost {claimed:.1f}% of the run (median).")


PARTS: dict[str, Callable[[Results], Iterator[str]]] = {
    "worst line": _worst_line,
    "targets": _targets,
    "speed": lambda results: judging_time(),
    "worst lines": _worst,
}
