"""Clocks whose true course is known: what is stated of an instant covers its error, whatever happens."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from slow import examples, slow

from timing_logger.reading.alignment import Alignment, alignments
from timing_logger.results import criteria
from timing_logger.schema.record import NS_PER_S
from timing_logger.schema.sidecar import ClockOffset
from timing_logger.schema.timing_files import TimingFile

Floats = npt.NDArray[np.float64]
Course = Callable[[Floats], Floats]
"""What must be added to a clock, in s, at true moments, in s."""

HERE = {"host": "node1", "boot_id": "b1"}
THERE = {"host": "node2", "boot_id": "b2"}

HOUR_S = 3600.0
HALF_WIDTH_S = 2e-6
BOOTED_LATER_S = 86_400.0


def temperature(phase: float) -> Course:
    """1 ppm faster and slower within an hour, as a room warms and cools."""
    swing_s = 1e-6 * HOUR_S / (2 * math.pi)
    return lambda at_s: BOOTED_LATER_S + 8e-6 * at_s + swing_s * np.sin(2 * math.pi * at_s / HOUR_S + phase)


def corrected(ppm: float) -> Course:
    """Someone sets another rate in the middle of the hour."""
    return lambda at_s: BOOTED_LATER_S + 1e-6 * ppm * np.maximum(at_s - HOUR_S / 2, 0.0)


def paused(when_s: float, length_s: float = 0.2) -> Course:
    """A virtual machine that stood still once, and whose clock is behind by so much from there on."""
    return lambda at_s: BOOTED_LATER_S + np.clip(at_s - when_s, 0.0, length_s)


def leapt(when_s: float, length_s: float = 0.2) -> Course:
    """A clock that left out so much."""
    return lambda at_s: BOOTED_LATER_S - length_s * (at_s > when_s)


COURSES = {
    "temperature": temperature(0.0),
    "temperature, turning in the middle": temperature(math.pi / 2),
    "corrected by 20 ppm": corrected(20.0),
    "corrected by -20 ppm": corrected(-20.0),
    "paused early": paused(30.0),
    "paused in the middle": paused(HOUR_S / 2),
    "paused late": paused(HOUR_S - 1.0),
    "leapt": leapt(HOUR_S / 3),
}


def measured(course: Course, at_s: Sequence[float], errors: Sequence[float] = (0.0,)) -> Alignment:
    """As a rank is aligned that was measured at these true moments; errors are parts of the half width."""
    moments = np.array(at_s, np.float64)
    off_s = course(moments) + HALF_WIDTH_S * np.resize(errors, len(moments))
    stated = [
        ClockOffset(
            round(counter * NS_PER_S), round(offset * NS_PER_S), round(HALF_WIDTH_S * NS_PER_S), 0,
            HERE["host"], HERE["boot_id"], 100,
        )._asdict()
        for counter, offset in zip(moments - course(moments), off_s, strict=True)
    ]  # fmt: skip
    sidecars: list[tuple[TimingFile, Any]] = [
        (TimingFile(0), dict(HERE)), (TimingFile(1), {**THERE, "clock_offsets": stated}),
    ]  # fmt: skip
    return alignments(sidecars)[1]


def uncovered_s(alignment: Alignment, course: Course, at_s: Floats) -> float:
    """By how much an error exceeds what is stated, at worst; a nanosecond is rounding."""
    counter_s = at_s - course(at_s)
    goes_on = np.diff(counter_s) > 0.5 * np.diff(at_s)  # while a clock stands still nobody reads it
    read = np.append(goes_on, True) & np.insert(goes_on, 0, True)
    at_s, counter_s = at_s[read], counter_s[read]
    errors_s = abs(alignment.on_the_axis(counter_s) - at_s)
    return float((errors_s - alignment.uncertainty_at(counter_s)).max())


ALL_ALONG_S = np.linspace(-300.0, HOUR_S + 300.0, 4001)


@pytest.mark.parametrize("name", COURSES)
@pytest.mark.parametrize("every_s", [HOUR_S, slow(HOUR_S / 4, "between the two others"), 120.0])
def test_the_stated_uncertainty_covers_the_error_all_along(name: str, every_s: float) -> None:
    moments = np.arange(0.0, HOUR_S + 1, every_s)
    alignment = measured(COURSES[name], moments.tolist(), errors=(1, -1, 0.3))
    assert uncovered_s(alignment, COURSES[name], ALL_ALONG_S) <= 1e-9


moments_s = st.lists(st.integers(0, 10_000), min_size=1, max_size=8, unique=True).map(sorted)
fastest = 0.9999 * criteria.MAX_CLOCK_DRIFT  # in a second of the reference; the bound is in one of the clock
rates = st.lists(st.floats(-fastest, fastest), min_size=1, max_size=12)
errors = st.lists(st.floats(-1, 1), min_size=1, max_size=8)


def wandering(rates: Sequence[float]) -> Course:
    """Another rate every 1000 s."""
    knots_s = 1000.0 * np.arange(-1, len(rates))
    offsets_s = BOOTED_LATER_S + 1000.0 * np.cumsum([0.0, *rates])
    return lambda at_s: np.interp(at_s, knots_s, offsets_s)


@given(moments_s, rates, errors)
@settings(max_examples=examples(100, few=8))
def test_whatever_a_clock_does_within_the_drift_bound_is_covered(
    at_s: list[int], rates: list[float], errors: list[float]
) -> None:
    alignment = measured(wandering(rates), at_s, errors)
    assert alignment.course.contradictions == []
    assert uncovered_s(alignment, wandering(rates), np.linspace(-2000.0, 13_000.0, 1501)) <= 2e-9


@given(moments_s, rates, errors, st.floats(-500, 11_000), st.floats(0, 100), st.sampled_from([paused, leapt]))
@settings(max_examples=examples(100, few=8))
def test_a_step_that_the_measurements_contradict_is_covered_too(
    at_s: list[int], rates: list[float], errors: list[float], when_s: float, length_s: float, step: Any
) -> None:
    """One that they do not contradict only the rows can show."""
    assume(not any(when_s <= moment <= when_s + length_s for moment in at_s))  # nobody measures in a pause
    steady, stepped = wandering(rates), step(when_s, length_s)

    def course(at_s: Floats) -> Floats:
        return steady(at_s) + stepped(at_s)

    alignment = measured(course, at_s, errors)
    inside_s = np.linspace(at_s[0], at_s[-1], 1001)[1:-1]
    if alignment.course.contradictions:
        assert uncovered_s(alignment, course, inside_s) <= 3e-9


# -- contradictions --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["paused early", "paused in the middle", "paused late", "leapt"])
def test_measurements_that_drift_cannot_explain_contradict_each_other(name: str) -> None:
    (found,) = measured(COURSES[name], [0.0, HOUR_S]).course.contradictions
    assert abs(found.moved_s) == pytest.approx(0.2)
    assert found.explained_s == pytest.approx(HOUR_S * criteria.MAX_CLOCK_DRIFT + 2 * HALF_WIDTH_S, rel=1e-3)


@pytest.mark.parametrize("name", ["temperature", "corrected by 20 ppm", "corrected by -20 ppm"])
def test_what_drift_explains_is_no_contradiction(name: str) -> None:
    assert measured(COURSES[name], [0.0, HOUR_S / 2, HOUR_S], errors=(1, -1)).course.contradictions == []


def test_a_step_makes_only_the_time_between_its_two_measurements_uncertain() -> None:
    alignment = measured(paused(500.0), [0.0, 300.0, 600.0, 900.0])
    counter_s = np.array([150.0, 310.0, 590.0, 750.0]) - BOOTED_LATER_S
    assert (alignment.uncertainty_at(counter_s) > 0.2).tolist() == [False, True, True, False]


def test_a_correction_by_the_most_that_ntp_does_is_covered_where_it_is_noticed() -> None:
    """500 ppm for 20 s, which is more than drift explains in 5 minutes."""

    def slewed(at_s: Floats) -> Floats:
        return BOOTED_LATER_S + 5e-4 * np.clip(at_s - 700.0, 0.0, 20.0)

    alignment = measured(slewed, np.arange(0.0, 1501.0, 300.0).tolist(), errors=(1, -1))
    assert [found.moved_s for found in alignment.course.contradictions] == pytest.approx([0.01], abs=1e-5)
    assert uncovered_s(alignment, slewed, np.linspace(0.0, 1500.0, 3001)) <= 1e-9


def test_two_measurements_of_one_moment_are_one() -> None:
    alignment = measured(temperature(0.0), [10.0, 10.0, 20.0])
    assert alignment.course.contradictions == []
    assert uncovered_s(alignment, temperature(0.0), np.linspace(0.0, 30.0, 301)) <= 1e-9
