"""The verdict on a change of the step: by the step as a whole, or by its parts where that is too uneven.

A part may be far more even than the step: what a busy machine adds to computing is not in the code that only
waits for a timer. If a part takes longer, and the step does not take less, then the program does more in each
step, although the step alone does not show it. That takes the parts that are too uneven to tell to be
unchanged: time that only moved from one part into another, as that of code which is timed from now on, is
told from a change only as far as the step tells it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.comparison.between_runs import Shift, shift_between
from timing_logger.analysis.comparison.differences import Members
from timing_logger.analysis.comparison.result import Basis, ComparisonVerdict, PartChange, StepChange, Why
from timing_logger.analysis.comparison.run_summary import RunSummary
from timing_logger.analysis.comparison.settings import PARTS_CONFIDENCE

PARTS = ("own work", "not timed", "transfer", "waiting")
"""The parts of a step that are judged; what could not be matched is none."""


class Found(NamedTuple):
    """A verdict, why there is none, what it is based on, and by how many ms the step changed by that."""

    verdict: ComparisonVerdict = "undecided"
    why: Why = ""
    basis: Basis = ""
    shown_ms: float = 0.0


def judged(shift: Shift, step: StepChange, parts: Sequence[PartChange], bound: float) -> Found:
    """Return the verdict on the step.

    Args:
        shift: by how much the logarithm of the step changed.
        step: the same in ms.
        parts: by how much its parts did.
        bound: the least change that is called one, as a fraction.
    """
    if shift.is_shown:
        if abs(shift.estimate) < math.log1p(bound):
            return Found(why="small")
        return Found(_direction(shift.estimate), "", "step", step.ms - step.against_ms)
    shown_ms = sum(part.change_ms for part in parts if part.is_shown)
    if abs(shown_ms) < bound * step.against_ms or shown_ms * shift.estimate <= 0:
        return Found(why="not shown")
    return Found(_direction(shown_ms), "", "parts", shown_ms)


def _direction(change: float) -> ComparisonVerdict:
    return "regressed" if change > 0 else "improved"


def parts_of_step(here: Members, there: Members, *, paired: bool) -> tuple[PartChange, ...]:
    """Return by how much each part of the step changed; their intervals hold together."""
    confidence = 1 - (1 - PARTS_CONFIDENCE) / len(PARTS)
    found = []
    for part in PARTS:
        ms, against_ms = ([_mean_ms(unit, part) for unit in side] for side in (here, there))
        shift = shift_between(ms, against_ms, paired=paired, confidence=confidence)
        means = float(np.mean(ms)), float(np.mean(against_ms))
        found.append(PartChange(part, *means, shift.estimate, shift.low, shift.high, shift.is_shown))
    return tuple(found)


def _mean_ms(runs: Sequence[RunSummary], part: str) -> float:
    return float(np.mean([_ms(run, part) for run in runs]))


def _ms(run: RunSummary, part: str) -> float:
    return sum(one.mean_ms for one in run.quantities if one.kind == "account" and one.operation == part)
