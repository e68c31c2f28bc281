"""How long steps were in the course of a run: the sums over processes, and the medians of stretches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.comparison.counted_steps import CountedSteps
from timing_logger.analysis.comparison.run_summary import Course, CourseKind
from timing_logger.analysis.comparison.settings import MOST_STRETCHES
from timing_logger.analysis.table_types import Bools, Floats, Ints

_NS_PER_MS = 1e6
_MOST_NS = 1e15  # eleven days: the sums over a million processes stay within 64 bits
_DIGITS = 6


class StepSums(NamedTuple):
    """How long the steps of some processes were, summed over these: whole numbers, so that their order does
    not matter.

    Attributes:
        counted_by: what ``at`` is.
        at: the number of each step, ascending.
        ns: the sum of its lengths in ns.
        n: how many processes have it.
    """

    counted_by: CourseKind
    at: Ints
    ns: Ints
    n: Ints


def step_sums(steps: CountedSteps) -> list[StepSums]:
    """Return the sums of some processes, of those whose iterations restart apart.

    The steps of a process whose iterations restart are counted, as an iteration is not one step there.
    """
    if (taken := steps.taken) is None:
        return []
    known, restarts = (taken.ms > 0) & (taken.number >= 0), taken.restarts
    kinds: tuple[tuple[CourseKind, Bools, Ints], ...] = (
        ("iterations", known & ~restarts, taken.number), ("steps", known & restarts, taken.place),
    )  # fmt: skip
    return [_summed(kind, at[of], taken.ms[of]) for kind, of, at in kinds if of.any()]


def _summed(kind: CourseKind, at: Ints, ms: Floats) -> StepSums:
    ns = np.minimum(np.rint(_NS_PER_MS * ms), _MOST_NS).astype(np.int64)
    return _joined([StepSums(kind, at, ns, np.ones(len(at), np.int64))])


def _joined(parts: Sequence[StepSums]) -> StepSums:
    at, place = np.unique(np.concatenate([part.at for part in parts]), return_inverse=True)
    ns, n = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
    np.add.at(ns, place, np.concatenate([part.ns for part in parts]))
    np.add.at(n, place, np.concatenate([part.n for part in parts]))
    return StepSums(parts[0].counted_by, at, ns, n)


def course_of(parts: Sequence[StepSums]) -> Course | None:
    """Return the course of a run in at most ``MOST_STRETCHES`` stretches; None where there is no single one.

    A stretch is as many iterations as a power of two, and begins at a multiple of these, so that runs of
    other lengths have the same stretches, or some that are two, four, ... of them.
    """
    if len({part.counted_by for part in parts}) != 1:
        return None
    steps = _joined(parts)
    width = 1
    while steps.at[-1] // width - steps.at[0] // width >= MOST_STRETCHES:
        width *= 2
    stretch, began, n_steps = np.unique(steps.at // width, return_index=True, return_counts=True)
    of_stretch = np.split(steps.ns / steps.n / _NS_PER_MS, began[1:])
    return Course(
        steps.counted_by, width, (width * stretch).tolist(),
        [float(f"{np.median(ms):.{_DIGITS}g}") for ms in of_stretch], n_steps.tolist(),
    )  # fmt: skip
