"""Writes the tables of ``docs/verdict-accuracy.md``; everything else in the page is written by hand."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from verdict_accuracy.figures import (
    COLUMNS,
    JOB_COLUMNS,
    Column,
    Results,
    calibration,
    known,
    least_found,
    median_percent,
    percent,
    stated_calibration,
    worst_lines,
)
from verdict_accuracy.job_faults import JOB_FAULTS
from verdict_accuracy.jobs import JOBS
from verdict_accuracy.noise import JOB_NOISES, NOISES
from verdict_accuracy.reach import costs_off, least_fine, made_with, reached
from verdict_accuracy.simulation import STEPS, Scenario, is_job
from verdict_accuracy.speed import judging_time
from verdict_accuracy.targets import standings

MADE = re.compile(r"(?<=<!-- made: )(?P<name>[\w ]+) -->\n(.*?)(?=<!-- end -->)", re.DOTALL)


def write(path: Path, results: Results) -> None:
    """Rewrite each part of the page ``path`` between ``<!-- made: NAME -->`` and ``<!-- end -->``.

    Parts about lines of which none was tried stay as they are.
    """

    def made(part: re.Match[str]) -> str:
        of = PARTS[part["name"]]
        if not any(map(of.needs, results)):
            return part[0]
        return "\n".join([f"{part['name']} -->", *of.lines(results), ""])

    path.write_text(MADE.sub(made, path.read_text(encoding="utf-8")), encoding="utf-8")


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
    return _described("noise", NOISES)


def _tables(results: Results) -> Iterator[str]:
    usual = {one: outcomes for one, outcomes in results.items() if not is_job(one)}
    for architecture, logged in dict.fromkeys((one.architecture, one.logged) for one in usual):
        yield from (f"## {architecture.capitalize()}, {logged}", "")
        yield from _table(
            {one: usual[one] for one in usual if (one.architecture, one.logged) == (architecture, logged)},
            ("noise", "fault", "ranks", "runs"), COLUMNS,
        )  # fmt: skip
        yield ""


def _table(results: Results, first: Sequence[str], columns: Sequence[Column]) -> Iterator[str]:
    """Yield a table with a row for each line; ``first`` names its first columns."""
    yield f"| {' | '.join(first)} | " + " | ".join(column.heading for column in columns) + " |"
    yield "|" + "---|" * (len(first) + len(columns))
    for one, outcomes in results.items():
        fault = one.fault if one.steps == STEPS else f"{one.fault}, {one.steps} steps"
        cells = {**one._asdict(), "job": one.architecture, "fault": fault, "runs": len(outcomes)}
        shown = (*(str(cells[name]) for name in first), *(column.shown(outcomes) for column in columns))
        yield f"| {' | '.join(shown)} |"


# -- kinds of jobs ---------------------------------------------------------------------------------


def _to_reach(results: Results) -> Iterator[str]:
    yield from ("| | to reach | reached | |", "|---|---|---|---|")
    for goal, figure in reached(results):
        stands = "met" if goal.is_met(figure) else "**missed**"
        yield f"| {goal.words} | {goal.bound_in_words} | {figure:.1f}% | {stands} |"
    yield from ("", made_with(results))


def _stated(results: Results) -> Iterator[str]:
    yield from ("| stated | named or suspected | stated on average | right |", "|---|---|---|---|")
    for one in stated_calibration(results):
        stated = "certain" if one.low > 0.99 else f"{one.low:.3g} to {one.high:.3g}"
        yield f"| {stated} | {one.n} | {one.stated:.3f} | {one.right:.3f} |"


def _worst_kinds(results: Results) -> Iterator[str]:
    yield from ("| what | line | |", "|---|---|---|")
    for words, lines, unit in (
        ("right or acceptable least often", least_fine(results, 15), "{:.0f}%"),
        ("stated cost / true cost", costs_off(results, 10), "{:.2f}"),
    ):
        yield from (f"| {words} | {scenario} | {unit.format(figure)} |" for scenario, figure in lines)


def _kinds(results: Results) -> Iterator[str]:
    """Yield one table of all lines of jobs; the worst come first."""
    jobs = {one: outcomes for one, outcomes in results.items() if is_job(one)}
    yield from (made_with(jobs), "")
    worst_first = sorted(jobs, key=lambda one: percent(jobs[one], "fine"))
    first = ("job", "logged", "noise", "fault", "ranks", "runs")
    yield from _table({one: jobs[one] for one in worst_first}, first, JOB_COLUMNS)


def _jobs(results: Results) -> Iterator[str]:
    yield from _described("job", {name: job.play for name, job in JOBS.items()})
    yield ""
    yield from _described("noise", JOB_NOISES)
    yield ""
    yield from _described("fault", OWN_FAULTS)


def _described(what: str, functions: Mapping[str, Callable[..., object]]) -> Iterator[str]:
    """Yield a table of functions with the first lines of their docstrings."""
    yield from (f"| {what} | |", "|---|---|")
    for name, function in functions.items():
        yield f"| {name} | {(inspect.getdoc(function) or '').splitlines()[0]} |"


OWN_FAULTS = {name: fault for name, fault in JOB_FAULTS.items() if not hasattr(fault, "func")}
"""The faults that their docstring describes, rather than their name."""


class Part(NamedTuple):
    """A part of the page that is made: its lines, and of which lines of the tables it needs at least one."""

    lines: Callable[[Results], Iterator[str]]
    needs: Callable[[Scenario], bool]


def _is_usual(one: Scenario) -> bool:
    return not is_job(one)


def _is_any(one: Scenario) -> bool:
    return True


PARTS: dict[str, Part] = {
    "worst line": Part(_worst_line, _is_usual),
    "targets": Part(_targets, _is_usual),
    "worst lines": Part(_worst, _is_usual),
    "noise": Part(_noise, _is_usual),
    "likelihoods": Part(_likelihoods, _is_usual),
    "tables": Part(_tables, _is_usual),
    "to reach": Part(_to_reach, _is_any),
    "speed": Part(lambda results: judging_time(), _is_any),
    "stated likelihoods": Part(_stated, _is_any),
    "worst kinds": Part(_worst_kinds, is_job),
    "jobs": Part(_jobs, is_job),
    "kinds": Part(_kinds, is_job),
}
