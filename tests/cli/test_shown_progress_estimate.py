"""How much of a command's work is done, and how long the rest takes, on a clock that the test moves."""

from __future__ import annotations

import pytest
from set_clock import SetClock

from timing_logger.cli.shown_progress import Estimate
from timing_logger.process.progress import Stage

SHARES: dict[Stage, float] = {"reading": 1.0, "answering": 3.0}


@pytest.fixture
def clock() -> SetClock:
    return SetClock(100.0)


@pytest.fixture
def estimate(clock: SetClock) -> Estimate:
    return Estimate(SHARES, clock)


def test_before_the_first_stage_nothing_is_known(estimate: Estimate, clock: SetClock) -> None:
    clock.now_s += 5.0
    assert (estimate.share_done(), estimate.left_s()) == (0.0, None)


def test_of_a_stage_that_just_began_the_stages_before_are_done(estimate: Estimate, clock: SetClock) -> None:
    estimate.begin("reading", 4)
    assert estimate.share_done() == 0.0
    clock.now_s += 2.0
    estimate.begin("answering", 2)
    assert estimate.share_done() == pytest.approx(1 / 4)
    assert estimate.left_s() == pytest.approx(6.0)


def test_steps_that_are_done_count_with_the_share_of_their_stage(estimate: Estimate, clock: SetClock) -> None:
    estimate.begin("reading", 4)
    clock.now_s += 2.0
    estimate.done(1)
    assert estimate.share_done() == pytest.approx(1 / 16)
    assert estimate.left_s() == pytest.approx(30.0)
    estimate.done(9)
    assert estimate.share_done() == pytest.approx(1 / 4)


def test_the_step_under_way_counts_as_long_as_those_before_it_lasted(
    estimate: Estimate, clock: SetClock
) -> None:
    estimate.begin("reading", 4)
    clock.now_s += 2.0
    estimate.done(1)
    clock.now_s += 1.0
    assert estimate.share_done() == pytest.approx(1.5 / 16)
    clock.now_s += 10.0
    assert estimate.share_done() == pytest.approx(1.9 / 16)


def test_the_first_step_of_a_stage_is_expected_to_last_by_the_stages_before(
    estimate: Estimate, clock: SetClock
) -> None:
    estimate.begin("reading", 1)
    clock.now_s += 2.0
    estimate.begin("answering", 2)
    clock.now_s += 1.5  # of the 3 s of a step: three times the 2 s of reading, in two steps
    assert estimate.share_done() == pytest.approx((1 + 3 * 0.25) / 4)


def test_a_stage_without_steps_has_one(estimate: Estimate) -> None:
    estimate.begin("reading", 0)
    estimate.done(1)
    assert estimate.share_done() == pytest.approx(1 / 4)


def test_a_stage_that_comes_again_begins_the_work_anew(estimate: Estimate, clock: SetClock) -> None:
    estimate.begin("reading", 1)
    clock.now_s += 50.0
    estimate.begin("answering", 1)
    clock.now_s += 50.0
    estimate.begin("reading", 2)
    clock.now_s += 1.0
    estimate.done(1)
    assert estimate.share_done() == pytest.approx(1 / 8)
    assert estimate.left_s() == pytest.approx(7.0)


def test_a_stage_that_takes_no_time_changes_nothing(clock: SetClock) -> None:
    estimate = Estimate({"reading": 1.0}, clock)
    estimate.begin("reading", 2)
    estimate.done(1)
    estimate.begin("writing", 7)
    assert estimate.stage == "reading"
    assert estimate.share_done() == pytest.approx(0.5)
