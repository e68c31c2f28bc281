"""The verdict on a change of the step: where each of its bounds lies, of figures that are made by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from compared_runs import STEP

from timing_logger.analysis.comparison.compare import Found, judged, time_the_same
from timing_logger.results.comparison import Difference, PartChange, Shift

BOUND = 0.0625
UNDECIDED = Found(why="not shown")


def shift(estimate: float, *, shown: bool = True) -> Shift:
    low, high = (estimate, estimate) if shown else (-1.0, 1.0)
    return Shift(estimate, low, high, 0.001, 0.02)


@pytest.mark.parametrize(
    ("estimate", "found"),
    [
        (math.log1p(BOUND), Found("regressed", "", "step", 10.0)),
        (-math.log1p(BOUND), Found("improved", "", "step", 10.0)),
        (0.99 * math.log1p(BOUND), Found(why="small")), (-0.99 * math.log1p(BOUND), Found(why="small")),
    ],
)  # fmt: skip
def test_a_shown_change_of_the_step_is_one_from_the_bound_on(estimate: float, found: Found) -> None:
    part = PartChange("own work", 90.0, 80.0, 10.0, 9.0, 11.0, True)
    assert judged(shift(estimate), STEP, [part], BOUND, time_the_same=True) == found


def by_parts(
    *changes_ms: float, bound: float = BOUND, shown: bool = True, same: bool = True, **of_step: float
) -> Found:
    """Judge a step of 100 ms, of which nothing is shown, by its parts; one more has changed by chance."""
    parts = [PartChange("waiting", 80.0, 30.0, 50.0, -9.0, 99.0, False)]
    parts += [PartChange("own work", 0.0, 0.0, ms, ms, ms, shown) for ms in changes_ms]
    step = STEP._replace(**{"low": -0.5, "high": 0.5, **of_step})
    return judged(shift(0.1, shown=False), step, parts, bound, time_the_same=same)


@pytest.mark.parametrize(
    ("changes_ms", "found"),
    [
        ((6.25,), Found("regressed", "", "account", 6.25)), ((6.0,), UNDECIDED),
        ((-6.25,), Found("improved", "", "account", -6.25)), ((-6.0,), UNDECIDED),
        ((4.0, 4.0), Found("regressed", "", "account", 8.0)), ((10.0, -4.0), UNDECIDED),
    ],
)  # fmt: skip
def test_an_uneven_step_is_judged_by_the_sum_of_the_parts_that_are_shown(
    changes_ms: tuple[float, ...], found: Found
) -> None:
    assert by_parts(*changes_ms) == found


def test_no_part_that_is_shown_tells_nothing_whatever_the_bound() -> None:
    assert by_parts(25.0, shown=False) == by_parts(25.0, -25.0, bound=0.0) == UNDECIDED


@pytest.mark.parametrize(("low", "high", "judges"), [
    (0.25, 0.5, True), (-0.5, 0.25, True), (0.26, 0.5, False), (-0.5, 0.24, False),
])  # fmt: skip
def test_parts_that_the_step_contradicts_tell_nothing(low: float, high: float, judges: bool) -> None:
    assert (by_parts(25.0, low=low, high=high) != UNDECIDED) is judges


def test_parts_tell_nothing_where_the_sides_time_different_operations() -> None:
    assert by_parts(25.0, same=False) == UNDECIDED


@pytest.mark.parametrize(
    ("fields", "is_same"),
    [
        ({}, False), ({"ms": -1.0}, False), ({"ms": 0.99}, True), ({"does": "gone"}, False),
        ({"does": "count"}, False), ({"does": "divided"}, False), ({"does": "bytes"}, True),
        ({"does": ""}, True), ({"kind": "layer"}, True), ({"operation": "GC"}, True),
    ],
)  # fmt: skip
def test_sides_time_the_same_unless_an_operation_of_a_hundredth_of_the_step_is_made_otherwise(
    fields: dict[str, Any], is_same: bool
) -> None:
    of = {"kind": "operation", "operation": "LOSS", "does": "new", "ms": 1.0, **fields}
    one = Difference(
        of["kind"], of["operation"], "", "", "", None, 3, 3, 1.0, 0.0, shift(of["ms"]), False, of["does"],
        1.0, 1.0, None, None,
    )  # fmt: skip
    assert time_the_same([one], STEP) is is_same
