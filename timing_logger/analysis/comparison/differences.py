"""What each thing takes on both sides, paired by what it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from typing import TypeAlias

import numpy as np

from timing_logger.analysis.comparison.between_runs import shown_beyond_chance, time_shift
from timing_logger.analysis.rows.operations import is_communication, is_wait
from timing_logger.results import criteria
from timing_logger.results.comparison import Difference, Does, Shift
from timing_logger.results.run_summary import MOST_LAYERS, MOST_OPERATIONS, Quantity, RunSummary

Members: TypeAlias = Sequence[Sequence[RunSummary]]
"""The runs of each unit of a side."""

What: TypeAlias = tuple[str, str, str, str, str, "int | None"]
_OfRun: TypeAlias = "dict[What, Quantity]"


def differences_of(
    here: Members, there: Members, *, paired: bool, with_intervals: bool
) -> tuple[Difference, ...]:
    """Return what each thing takes on both sides, the largest difference first.

    Their differences are in ms per step, and not factors as that of the step, since something may not be
    there on one side.

    Args:
        here, there: the units of both sides.
        paired: whether the units are pairs.
        with_intervals: whether there are enough of them to tell chance from change.
    """
    sides = [[[_by_what(run) for run in unit] for unit in side] for side in (here, there)]
    names = dict.fromkeys(what for side in sides for unit in side for run in unit for what in run)
    floor_ms = floor_of(here, there)
    found = [
        _difference(what, *sides, floor_ms=floor_ms, paired=paired, with_intervals=with_intervals)
        for what in names
    ]
    found = _with_divided(found)
    named = (
        shown_beyond_chance([one.shift.p for one in found], criteria.FALSE_DISCOVERIES_SHARE)
        if with_intervals
        else []
    )
    if named:
        found = [one._replace(is_named=is_named) for one, is_named in zip(found, named, strict=True)]
    return tuple(sorted(found, key=lambda one: -abs(one.shift.estimate)))


def floor_of(here: Members, there: Members) -> float:
    """Return what is added to times before their logarithms are compared: a small part of a step, in ms."""
    steps_ms = [run.step_mean_ms for side in (here, there) for unit in side for run in unit]
    return criteria.TRIFLE_SHARE * float(np.median(steps_ms))


def _by_what(run: RunSummary) -> _OfRun:
    return {one.what: one for one in run.quantities}


def _difference(
    what: What,
    here: Sequence[Sequence[_OfRun]],
    there: Sequence[Sequence[_OfRun]],
    *,
    floor_ms: float,
    paired: bool,
    with_intervals: bool,
) -> Difference:
    ms, against_ms = (_values(side, what, lambda one: one.mean_ms) for side in (here, there))
    took = time_shift(ms, against_ms, floor_ms, paired=paired)
    shift = (
        took.shift if with_intervals else Shift(took.shift.estimate, -math.inf, math.inf, math.nan, math.nan)
    )
    found, others = (_found(side, what) for side in (here, there))
    n_rows, against_rows = (_mean(_values(side, what, lambda one: one.n_rows)) for side in (here, there))
    n_bytes, against_bytes = (_mean_bytes(of) for of in (found, others))
    does = _does(found, others, here, there)
    return Difference(
        *what, len(found), len(others), took.ms, took.against_ms, shift, False, does, n_rows,
        against_rows, n_bytes, against_bytes,
    )  # fmt: skip


def _found(side: Sequence[Sequence[_OfRun]], what: What) -> list[Quantity]:
    return [run[what] for unit in side for run in unit if what in run]


def _does(
    found: Sequence[Quantity],
    others: Sequence[Quantity],
    here: Sequence[Sequence[_OfRun]],
    there: Sequence[Sequence[_OfRun]],
) -> Does:
    """Return what is done otherwise in every run of one side than in any of the other."""
    if not others:
        return "new" if _only(found, here, there) else ""
    if not found:
        return "gone" if _only(others, there, here) else ""
    if _apart([one.bytes for one in found], [one.bytes for one in others]):
        return "bytes"
    return "count" if _apart([one.n_rows for one in found], [one.n_rows for one in others]) else ""


def _with_divided(found: Sequence[Difference]) -> list[Difference]:
    """Say of calls, layers and buckets of communication that differ only in how as many bytes are divided."""
    operations = [one for one in found if one.kind == "operation" and is_communication(one.operation)]
    as_many = {name for name, of in _grouped(operations).items() if _has_as_many_bytes(of)}
    layers = {
        one.layer
        for one in found
        if one.kind == "layer" and one.operation in as_many and one.does in _DIVIDES
    }
    return [one._replace(does="divided") if _is_divided(one, as_many, layers) else one for one in found]


_DIVIDES = ("bytes", "count", "new", "gone")


def _is_divided(one: Difference, as_many: Container[str], layers: Container[str]) -> bool:
    if one.kind == "layer":  # also of the waits for a bucket that only one side has
        of_wait = one.does in _DIVIDES and is_wait(one.operation) and one.layer in layers
        return of_wait or (one.does in _DIVIDES and one.operation in as_many)
    return one.does == "count" and one.operation in as_many


def _grouped(operations: Sequence[Difference]) -> dict[str, list[Difference]]:
    by_name: dict[str, list[Difference]] = {}
    for one in operations:
        by_name.setdefault(one.operation, []).append(one)
    return by_name


def _has_as_many_bytes(of: Sequence[Difference]) -> bool:
    """Tell whether both sides make an operation for the same purposes, with as many bytes for each."""
    return not any(
        one.does in ("bytes", "new", "gone") or not one.bytes or not one.against_bytes for one in of
    )


def _only(
    found: Sequence[Quantity], here: Sequence[Sequence[_OfRun]], there: Sequence[Sequence[_OfRun]]
) -> bool:
    """Tell whether all runs of a side have a thing, and all of the other would have kept it if they had
    it."""
    if len(found) < sum(map(len, here)):
        return False
    kind = found[0].kind
    kept = [[one.mean_ms for one in run.values() if one.kind == kind] for unit in there for run in unit]
    least_ms = max((min(ms) for ms in kept if len(ms) >= _MOST_KEPT.get(kind, len(ms) + 1)), default=0.0)
    return _mean([one.mean_ms for one in found]) > least_ms


_MOST_KEPT = {"operation": MOST_OPERATIONS, "layer": MOST_LAYERS}


def _apart(here: Sequence[float | None], there: Sequence[float | None]) -> bool:
    """Tell whether all of one side lie beyond all of the other, by more than the end of a run explains."""
    known, others = ([one for one in side if one is not None] for side in (here, there))
    if not known or not others:
        return False
    gap = max(min(known) - max(others), min(others) - max(known))
    return gap > criteria.MIN_AMOUNT_CHANGE_SHARE * max(max(known), max(others))


def _values(side: Sequence[Sequence[_OfRun]], what: What, value: Callable[[Quantity], float]) -> list[float]:
    """Return for each unit the mean over its runs; 0 of a run in which it does not occur."""
    return [_mean([value(run[what]) if what in run else 0.0 for run in unit]) for unit in side]


def _mean_bytes(found: Sequence[Quantity]) -> float | None:
    stated = [one.bytes for one in found if one.bytes is not None]
    return _mean(stated) if stated else None


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
