"""Compare the runs of two sides: is a step slower, how sure is that, and what explains it?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.comparison.between_runs import (
    as_part,
    courses_of,
    effect_found,
    runs_needed,
    shift_between,
    since_when,
    time_shift,
)
from timing_logger.analysis.comparison.differences import Members, causes_of, differences_of, floor_of
from timing_logger.analysis.rows.operations import PAUSES
from timing_logger.errors import ConfigurationError
from timing_logger.results import criteria
from timing_logger.results.comparison import (
    Basis,
    Comparison,
    ComparisonVerdict,
    Difference,
    Order,
    PartChange,
    Shift,
    Side,
    StepChange,
    Unlike,
    Why,
)
from timing_logger.results.run_summary import RunSummary


def compare_runs(
    runs: Sequence[RunSummary],
    against: Sequence[RunSummary],
    *,
    max_regression: float = criteria.MIN_CHANGE_SHARE,
    paired: bool = False,
    in_batches: bool = False,
) -> Comparison:
    """Compare the runs of one side with those of another.

    The verdict is on the mean length of a step, of which each run gives the logarithm: the sides differ by a
    factor, and runs that are disturbed are longer by a factor, too. It is Welch's t-test on these, so that
    the spread of the runs of each side decides, not that of the steps in a run. Where that does not show a
    change, the parts of the step are looked at, see ``judging.py``.

    Args:
        runs, against: of each side one summary for each run, as :func:`summarize_run` returns.
        max_regression: the least slowdown that is called one, as a fraction.
        paired: whether the n-th run of one side was made beside the n-th of the other, so that they share
            what the machine was like.
        in_batches: whether ``against`` is a history: its batches count as measurements, and ``runs`` as one.

    Raises:
        ConfigurationError: a side has no run; a run is given twice; ``max_regression`` is no fraction from 0
            to below 10; pairs are asked for of sides of different numbers; or scipy is not installed.
    """
    _check(runs, against, max_regression, paired=paired, in_batches=in_batches)
    here = [list(runs)] if in_batches else [[run] for run in runs]
    there = _batches(against) if in_batches else [[run] for run in against]
    logs, against_logs = (
        [float(np.mean([math.log(run.step_mean_ms) for run in unit])) for unit in side]
        for side in (here, there)
    )
    shift = shift_between(logs, against_logs, paired=paired, confidence=criteria.STEP_CONFIDENCE)
    step = _step_change(logs, against_logs, shift, max_regression)
    why = _why_not(here, there, in_batches=in_batches)
    parts = () if why else parts_of_step(here, there, paired=paired)
    differences = differences_of(here, there, paired=paired, with_intervals=not why)
    alike = time_the_same(differences, step)
    found = Found(why=why) if why else judged(shift, step, parts, max_regression, time_the_same=alike)
    since = None if why else since_when(here, there, paired=paired, least=max_regression)
    causes = causes_of(here, there, differences, found.shown_ms)
    return Comparison(
        verdict=found.verdict, why=found.why, basis=found.basis, step=step, parts=parts, bound=max_regression,
        paired=paired, in_batches=in_batches, causes=causes, differences=differences,
        courses=None if why == "different steps" else courses_of(here, there), since=since,
        unlike=tuple(_unlike_in(runs, against)), order="unknown" if in_batches else _order(runs, against),
        here=Side(runs, len(here)), against=Side(against, len(there)),
    )  # fmt: skip


def _check(
    runs: Sequence[RunSummary],
    against: Sequence[RunSummary],
    max_regression: float,
    *,
    paired: bool,
    in_batches: bool,
) -> None:
    if not runs or not against:
        raise ConfigurationError("compare: there is no run on one side. Name at least one of each.")
    for identity, n in Counter(run.identity for run in (*runs, *against) if run.identity).items():
        if n > 1:  # what is equal to itself would look sure
            raise ConfigurationError(f"compare: run {identity[0]!r} is given twice. Name each run once.")
    if not 0 <= max_regression < _MOST_BOUND:
        raise ConfigurationError(
            f"max_regression={max_regression!r}: say a part of the step from 0 to {_MOST_BOUND:g}, as 0.05."
        )
    if paired and (in_batches or len(runs) != len(against)):
        raise ConfigurationError(
            f"paired: {len(runs)} runs and {len(against)} are no pairs. Record as many of each, in turn."
        )


_MOST_BOUND = 10.0


def _batches(runs: Sequence[RunSummary]) -> list[list[RunSummary]]:
    """Return the runs of each batch, which share what the machine was like."""
    found: dict[str, list[RunSummary]] = {}
    for run in runs:
        found.setdefault(run.batch, []).append(run)
    return list(found.values())


def _step_change(
    logs: Sequence[float], against_logs: Sequence[float], shift: Shift, max_regression: float
) -> StepChange:
    ms, against_ms = (math.exp(float(np.mean(side))) for side in (logs, against_logs))
    wanted = max(abs(shift.estimate), math.log1p(max_regression or criteria.MIN_CHANGE_SHARE))
    finds = effect_found(shift.spread, len(logs), len(against_logs), criteria.STEP_CONFIDENCE)
    return StepChange(
        ms, against_ms, as_part(shift.estimate), as_part(shift.low), as_part(shift.high), shift.p,
        shift.spread, as_part(finds), runs_needed(wanted, shift.spread, criteria.STEP_CONFIDENCE),
    )  # fmt: skip


def _why_not(here: Members, there: Members, *, in_batches: bool) -> Why:
    """Return why the sides cannot be judged; "" if they can."""
    kinds = {run.steps_are for side in (here, there) for unit in side for run in unit}
    if len(kinds) > 1:
        return "different steps"
    if in_batches:
        return "few batches" if len(there) < criteria.MIN_BATCHES else ""
    return "few runs" if min(len(here), len(there)) < criteria.MIN_RUNS else ""


def _order(runs: Sequence[RunSummary], against: Sequence[RunSummary]) -> Order:
    began = [[run.began_unix_ns for run in side if run.began_unix_ns is not None] for side in (runs, against)]
    here, there = began
    if len(here) < len(runs) or len(there) < len(against):
        return "unknown"
    if min(here) > max(there):
        return "after"
    return "before" if max(here) < min(there) else "in turn"


# -- what the runs of two sides do not have in common, beside their times --------------------------------


_FACTS: dict[str, Callable[[RunSummary], object]] = {
    "steps": lambda run: run.steps_are,
    "ranks": lambda run: run.n_ranks,
    "world size": lambda run: run.world_size,
    "hosts": lambda run: ", ".join(run.hosts),
}


def _unlike_in(runs: Sequence[RunSummary], against: Sequence[RunSummary]) -> Iterator[Unlike]:
    """Yield in what the sides differ: ranks, hosts, versions and options. What is unknown is not compared."""
    for about, fact in _FACTS.items():
        yield from _if_unlike(about, runs, against, fact)
    for kind, name in (("version of", "versions"), ("option", "options")):
        for key in sorted({key for run in (*runs, *against) for key in getattr(run, name)}):
            yield from _if_unlike(f"{kind} {key}", runs, against, _stated(name, key))


def _stated(name: str, key: str) -> Callable[[RunSummary], object]:
    return lambda run: getattr(run, name).get(key)


def _if_unlike(
    about: str,
    runs: Sequence[RunSummary],
    against: Sequence[RunSummary],
    fact: Callable[[RunSummary], object],
) -> Iterator[Unlike]:
    here, there = (_texts(side, fact) for side in (runs, against))
    if here and there and here != there:
        yield Unlike(about, here, there)


def _texts(runs: Sequence[RunSummary], fact: Callable[[RunSummary], object]) -> tuple[str, ...]:
    known = {str(value) for run in runs if (value := fact(run)) not in (None, "")}
    return tuple(sorted(known))


# -- the verdict on a change of the step, as a whole or by its parts -----------------------------------
# A part may be far more even than the step: what a busy machine adds to computing is not in code that only
# waits for a timer. If a part takes longer, the program does more in each step, although the step alone
# does not show it. That takes the parts that are too uneven to tell to be unchanged. So it is not concluded
# where the step contradicts, nor where the sides time different operations: then time may only have moved
# from one part into another, as that of code that is timed from now on.


PARTS = ("own work", "not timed", "transfer", "waiting")
"""The parts of a step that are judged; what could not be matched is none."""


class Found(NamedTuple):
    """A verdict, why there is none, what it is based on, and by how many ms the step changed by that."""

    verdict: ComparisonVerdict = "undecided"
    why: Why = ""
    basis: Basis = ""
    shown_ms: float = 0.0


def judged(
    shift: Shift, step: StepChange, parts: Sequence[PartChange], bound: float, *, time_the_same: bool
) -> Found:
    """Return the verdict on the step.

    Args:
        shift: by how much the logarithm of the step changed.
        step: the same in ms.
        parts: by how much its parts did.
        bound: the least change that is called one, as a fraction.
        time_the_same: whether both sides time the same operations.
    """
    if shift.is_shown:
        if abs(shift.estimate) < math.log1p(bound):
            return Found(why="small")
        return Found(_direction(shift.estimate), "", "step", step.ms - step.against_ms)
    shown_ms = sum(part.change_ms for part in parts if part.is_shown)
    share = shown_ms / step.against_ms
    if not time_the_same or shown_ms == 0 or abs(share) < bound or not step.low <= share <= step.high:
        return Found(why="not shown")
    return Found(_direction(shown_ms), "", "account", shown_ms)


def time_the_same(differences: Sequence[Difference], step: StepChange) -> bool:
    """Tell whether both sides time the same operations equally often, but for some that take next to nothing.

    Pauses count for nothing here: they are no code that somebody has timed.
    """
    least_ms = criteria.TRIFLE_SHARE * step.against_ms
    return not any(
        one.does in ("new", "gone", "count", "divided") and abs(one.shift.estimate) >= least_ms
        for one in differences
        if one.kind == "operation" and one.operation not in PAUSES
    )


def _direction(change: float) -> ComparisonVerdict:
    return "regressed" if change > 0 else "improved"


def parts_of_step(here: Members, there: Members, *, paired: bool) -> tuple[PartChange, ...]:
    """Return by how much each part of the step changed; their intervals hold together."""
    confidence = 1 - (1 - criteria.PARTS_CONFIDENCE) / len(PARTS)
    floor_ms, found = floor_of(here, there), []
    for part in PARTS:
        ms, against_ms = ([_mean_ms(unit, part) for unit in side] for side in (here, there))
        took = time_shift(ms, against_ms, floor_ms, paired=paired, confidence=confidence)
        shift = took.shift
        found.append(
            PartChange(part, took.ms, took.against_ms, shift.estimate, shift.low, shift.high, shift.is_shown)
        )
    return tuple(found)


def _mean_ms(runs: Sequence[RunSummary], part: str) -> float:
    return float(np.mean([_ms(run, part) for run in runs]))


def _ms(run: RunSummary, part: str) -> float:
    return sum(one.mean_ms for one in run.quantities if one.kind == "account" and one.operation == part)
