"""In which gap between its calls a thread waited for an operation, and how long."""

from __future__ import annotations

import numpy as np
import pytest

from timing_logger.importing.kineto_communication import waits_in_gaps
from timing_logger.importing.kineto_events import COMMUNICATION, Span
from timing_logger.importing.kineto_events import WORK as OF_WORK
from timing_logger.importing.kineto_work import Lane

WORK, ISSUE = False, True


def waits(
    *operations: tuple[float, float], calls: list[tuple[float, float, bool]]
) -> list[tuple[float, float]]:
    """Return the wait for each operation, in the order in which they are given."""
    starts_us, ends_us, is_issue = zip(*calls, strict=True) if calls else ((), (), ())
    kinds = np.where(np.array(is_issue, bool), COMMUNICATION, OF_WORK)
    of_thread = Lane(np.array(starts_us, float), np.array(ends_us, float), kinds.astype(np.int8))
    return [tuple(wait) for wait in waits_in_gaps(of_thread, [Span(*one) for one in operations])]


def test_a_thread_without_calls_waited_for_nothing() -> None:
    assert waits((5.0, 50.0), calls=[]) == [(50.0, 50.0)]


@pytest.mark.parametrize(("next_us", "wait"), [(30.0, (10.0, 25.0)), (29.9, (25.0, 25.0))])
def test_a_gap_of_less_than_20_us_is_none(next_us: float, wait: tuple[float, float]) -> None:
    assert waits((5.0, 25.0), calls=[(0.0, 10.0, ISSUE), (next_us, 9_000.0, WORK)]) == [wait]


@pytest.mark.parametrize(
    ("issued_us", "waited_from_us"), [(0.0, 10.0), (10.0, 10.0), (10.1, 50.0), (-0.1, 50.0)]
)
def test_after_the_call_that_issued_an_operation_a_thread_waits_however_late_it_goes_on(
    issued_us: float, waited_from_us: float
) -> None:
    calls = [(0.0, 10.0, ISSUE), (20_000.0, 20_001.0, WORK)]
    assert waits((issued_us, 50.0), calls=calls) == [(waited_from_us, 50.0)]


def test_a_wait_begins_no_earlier_than_its_operation_was_issued() -> None:
    assert waits((30.0, 50.0), calls=[(0.0, 10.0, WORK), (60.0, 70.0, WORK)]) == [(30.0, 50.0)]


@pytest.mark.parametrize(("next_us", "waited_from_us"), [(5_050.0, 10.0), (5_050.1, 50.0)])
def test_who_goes_on_within_5_ms_after_the_end_waited_for_it(next_us: float, waited_from_us: float) -> None:
    calls = [(0.0, 10.0, WORK), (next_us, next_us + 1.0, WORK)]
    assert waits((5.0, 50.0), calls=calls) == [(waited_from_us, 50.0)]


@pytest.mark.parametrize(
    ("operation", "wait"),
    [
        ((5.0, 1_100.0), (10.0, 100.0)),
        ((5.0, 1_100.1), (1_100.1, 1_100.1)),
        ((99.0, 600.0), (99.0, 100.0)),
        ((100.0, 600.0), (600.0, 600.0)),
    ],
)
def test_who_goes_on_a_millisecond_before_the_noted_end_waited_if_it_had_been_issued(
    operation: tuple[float, float], wait: tuple[float, float]
) -> None:
    assert waits(operation, calls=[(0.0, 10.0, WORK), (100.0, 5_000.0, WORK)]) == [wait]


@pytest.mark.parametrize(
    ("end_us", "wait"), [(120.0, (10.0, 100.0)), (125.0, (110.0, 125.0)), (130.0, (110.0, 130.0))]
)
def test_of_two_gaps_the_one_that_ends_nearer_to_the_end_is_the_wait(
    end_us: float, wait: tuple[float, float]
) -> None:
    calls = [(0.0, 10.0, WORK), (100.0, 110.0, WORK), (150.0, 160.0, WORK)]
    assert waits((5.0, end_us), calls=calls) == [wait]


def test_a_thread_waits_in_the_order_of_issue_and_for_the_next_only_since_the_last_ended() -> None:
    calls = [(0.0, 10.0, ISSUE), (20_000.0, 20_001.0, WORK)]
    found = waits((4.0, 50.0), (2.0, 60.0), (6.0, 80.0), calls=calls)
    assert found == [(50.0, 50.0), (10.0, 60.0), (60.0, 80.0)]


def test_after_its_last_call_a_thread_waits_only_for_what_that_issued() -> None:
    for kind, waited_from_us in ((ISSUE, 10.0), (WORK, 50.0)):
        assert waits((5.0, 50.0), calls=[(0.0, 10.0, kind)]) == [(waited_from_us, 50.0)]
