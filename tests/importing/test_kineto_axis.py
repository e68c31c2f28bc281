"""Instants of a trace as those of rows, in their steps; and when work for a device was launched."""

from __future__ import annotations

from array import array

import pytest

from timing_logger.importing.imported import LeftOut
from timing_logger.importing.kineto_events import (
    Annotation,
    Axis,
    Kept,
    Kernels,
    Launches,
    Ran,
    Span,
    Thread,
    first_instant_us,
)

STEPS = {7: Span(20.0, 30.0), 3: Span(0.0, 10.0)}


def test_an_instant_is_in_the_step_that_it_begins_lies_in_or_ends() -> None:
    at_us = [-0.1, 0.0, 5.0, 10.0, 10.1, 20.0, 30.0, 30.1]
    assert Axis(0, STEPS).steps_at(at_us) == [None, 3, 3, 3, None, 7, 7, None]
    assert Axis(0, STEPS).step_at(20.0) == 7


def test_where_one_step_begins_as_another_ends_an_instant_is_in_the_one_that_begins() -> None:
    assert Axis(0, {1: Span(0.0, 10.0), 2: Span(10.0, 20.0)}).step_at(10.0) == 2


def test_steps_are_in_the_order_of_their_begins() -> None:
    assert Axis(0, {1: Span(5.0, 6.0), 2: Span(0.0, 40.0)}).steps_at([1.0, 5.5, 7.0]) == [2, 1, None]


def test_without_steps_an_instant_is_in_none() -> None:
    assert Axis(0, {}).steps_at([1.0, 2.0]) == [None, None]


@pytest.mark.parametrize(
    ("span", "interval_ns"),
    [
        (Span(1.5, 2.0), (2_500, 3_000)), (Span(-1.0, 2.0), (0, 3_000)), (Span(-3.0, -2.0), (0, 0)),
        (Span(2.0, 1.0), (3_000, 3_000)),
    ],
)  # fmt: skip
def test_nothing_is_before_the_axis_begins_or_ends_before_its_start(
    span: Span, interval_ns: tuple[int, int]
) -> None:
    assert Axis(1_000, {}).interval_ns(span) == interval_ns


def test_work_of_which_no_launch_is_known_was_launched_when_it_started() -> None:
    launches = Launches(array("q", [9, 2, 5]), array("d", [90.0, 20.0, 50.0]))
    times = launches.of([5, 9, 2, 10, 3, -1], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert times.tolist() == [50.0, 90.0, 20.0, 4.0, 5.0, 6.0]
    assert Launches().of([5], [1.0]).tolist() == [1.0]


@pytest.mark.parametrize(
    "kept",
    [
        Kept(LeftOut(), steps={3: Span(4.0, 5.0), 2: Span(6.0, 7.0)}),
        Kept(LeftOut(), annotations=[Annotation(Span(at, 8.0), 1, "DATA", "") for at in (5.0, 4.0)]),
        Kept(LeftOut(), gloo=[Ran(Span(4.0, 5.0), "gloo:barrier", None)]),
        Kept(LeftOut(), kernels=[Ran(Span(4.0, 5.0), "nccl", None)]),
        Kept(LeftOut(), threads={1: Thread(array("d", [5.0, 4.0]))}),
        Kept(
            LeftOut(), streams={(0, 7): Kernels(array("d", [5.0, 4.0])), (0, 8): Kernels(array("d", [9.0]))}
        ),
        Kept(LeftOut(), steps={3: Span(6.0, 7.0)}, threads={1: Thread(array("d", [4.0]))}),
    ],
    ids=["steps", "annotations", "gloo", "kernels", "threads", "streams", "the earliest of all"],
)
def test_the_first_instant_is_that_of_whatever_begins_first(kept: Kept) -> None:
    assert first_instant_us(kept) == 4.0


def test_where_nothing_was_kept_the_first_instant_is_0() -> None:
    assert first_instant_us(Kept(LeftOut())) == 0.0
