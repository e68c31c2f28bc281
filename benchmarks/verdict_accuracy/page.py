"""Writes the tables of ``docs/verdict-accuracy.md``; everything else in the page is written by hand."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from verdict_accuracy.figures import (
    COLUMNS,
    Results,
    calibration,
    known,
    least_found,
    median_percent,
    worst_lines,
)
from verdict_accuracy.noise import NOISES
from verdict_accuracy.simulation import STEPS, Scenario
from verdict_accuracy.targets import standings

MADE = re.compile(r"(?<=<!-- made: )(?P<name>[\w ]+) -->\n(.*?)(?=<!-- end -->)", re.DOTALL)


def write(path: Path, results: Results) -> None:
    """Rewrite each part of the page ``path`` between ``<!-- made: NAME -->`` and ``<!-- end -->``."""
    text = path.read_text(encoding="utf-8")
    made = MADE.sub(lambda part: "\n".join([f"{part['name']} -->", *PARTS[part["name"]](results), ""]), text)
    path.write_text(made, encoding="utf-8")


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


def _targets(results: Results) -> Iterator[str]:
    yield from ("| | bound | worst line | |", "|---|---|---|---|")
    for one in standings(results):
        stands = "met" if one.is_met else "**missed**"
        yield f"| {one.words} | {one.bound} | {one.figure:.1f}%, {one.where} | {stands} |"


def _worst(results: Results) -> Iterator[str]:
    columns = (
        ("an innocent rank is named", worst_lines(results, "wrong_name", 8)),
        ("an innocent rank is suspected", worst_lines(results, "wrong_suspect", 8)),
        ("a fault that costs 1% or more is found least often", least_found(results, 8)),
    )
    yield from ("| what | line | % of runs |", "|---|---|---|")
    for words, lines in columns:
        yield from (f"| {words} | {scenario} | {figure:.0f} |" for scenario, figure in lines)
    claims = [outcome for outcomes in results.values() for outcome in outcomes]
    if known(claims, "claimed"):
        yield from (
            "",
            f"False alarms claim to cost {median_percent(claims, 'claimed'):.1f}% of the run (median).",
        )


def _likelihoods(results: Results) -> Iterator[str]:
    bins = calibration(results)
    if not bins:
        yield "No verdict stated a likelihood."
        return
    yield from ("| stated | suspects | stated on average | right |", "|---|---|---|---|")
    yield from (f"| {b.low:.2f} to {b.high:.2f} | {b.n} | {b.stated:.2f} | {b.right:.2f} |" for b in bins)


def _noise(results: Results) -> Iterator[str]:
    yield from ("| noise | |", "|---|---|")
    yield from (
        f"| {name} | {(inspect.getdoc(drawn) or '').splitlines()[0]} |" for name, drawn in NOISES.items()
    )


def _tables(results: Results) -> Iterator[str]:
    for architecture, logged in dict.fromkeys((one.architecture, one.logged) for one in results):
        yield from (f"## {architecture.capitalize()}, {logged}", "")
        yield "| noise | fault | ranks | runs | " + " | ".join(column.heading for column in COLUMNS) + " |"
        yield "|" + "---|" * (4 + len(COLUMNS))
        yield from (
            _row(one, results) for one in results if (one.architecture, one.logged) == (architecture, logged)
        )
        yield ""


def _row(one: Scenario, results: Results) -> str:
    fault = one.fault if one.steps == STEPS else f"{one.fault}, {one.steps} steps"
    first = (one.noise, fault, str(one.ranks), str(len(results[one])))
    return "| " + " | ".join([*first, *(column.shown(results[one]) for column in COLUMNS)]) + " |"


PARTS: dict[str, Callable[[Results], Iterator[str]]] = {
    "worst line": _worst_line,
    "targets": _targets,
    "worst lines": _worst,
    "noise": _noise,
    "likelihoods": _likelihoods,
    "tables": _tables,
}
