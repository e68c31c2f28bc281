"""The verdict on a change of the step: by the step as a whole, or by its parts where that is too uneven.

A part may be far more even than the step: what a busy machine adds to computing is not in code that only
waits for a timer. If a part takes longer, the program does more in each step, although the step alone does
not show it. That takes the parts that are too uneven to tell to be unchanged. So it is not concluded where
the step contradicts, nor where the sides time different operations: then time may only have moved from one
part into another, as that of code that is timed from now on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.comparison.between_runs import Shift, time_shift
from timing_logger.analysis.comparison.differences import Members, floor_of
from timing_logger.analysis.comparison.result import (
    Basis,
    ComparisonVerdict,
    Difference,
    PartChange,
    StepChange,
    Why,
)
from timing_logger.analysis.comparison.run_summary import RunSummary
from timing_logger.analysis.comparison.settings import PARTS_CONFIDENCE
from timing_logger.analysis.operations import PAUSES

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
    least_ms = _TRIFLE * step.against_ms
    return not any(
        one.does in ("new", "gone", "count", "divided") and abs(one.shift.estimate) >= least_ms
        for one in differences
        if one.kind == "operation" and one.operation not in PAUSES
    )


_TRIFLE = 0.01


def _direction(change: float) -> ComparisonVerdict:
    return "regressed" if change > 0 else "improved"


def parts_of_step(here: Members, there: Members, *, paired: bool) -> tuple[PartChange, ...]:
    """Return by how much each part of the step changed; their intervals hold together."""
    confidence = 1 - (1 - PARTS_CONFIDENCE) / len(PARTS)
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
