"""Sums over intervals: when they are folded, and what becomes of a reader that interrupted a fold."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from timing_logger.compat import _intervals
from timing_logger.compat._intervals import IntervalSums, Sums
from timing_logger.recording.device.intervals import HostInterval


def lasting(duration_ns: int) -> HostInterval:
    """Return an interval that has ended."""
    interval = HostInterval()
    interval.end()
    interval.end_ns = interval.start_ns + duration_ns
    return interval


@pytest.fixture
def sums() -> IntervalSums:
    return IntervalSums()


class Clock:
    """A clock that stands still but for sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.sleeps_s = 5.0, list[float]()
        stand_in = SimpleNamespace(monotonic=lambda: self.now_s, sleep=self._sleep)
        monkeypatch.setattr(_intervals, "time", stand_in)

    def _sleep(self, seconds: float) -> None:
        self.sleeps_s.append(seconds)
        self.now_s += seconds


def test_every_32nd_interval_has_all_before_it_folded(sums: IntervalSums) -> None:
    for number in range(1, 65):
        sums.add(lasting(number))
        assert len(sums._ended) == number % 32
    assert sums.read() == Sums(known=64, total_ns=64 * 65 // 2, unresolved=0, waiting=0)


def test_a_reader_has_the_rest_folded_and_forgets_nothing(sums: IntervalSums) -> None:
    last = lasting(7)
    for one in (lasting(5), last):
        sums.add(one)
    assert (sums.last, sums.read(), sums.read()) == (last, Sums(2, 12, 0, 0), Sums(2, 12, 0, 0))
    sums.clear()
    assert (sums.last, sums.read()) == (None, Sums(0, 0, 0, 0))


def test_a_reader_that_interrupted_a_fold_waits_a_tenth_of_a_second_and_reads_what_there_is(
    sums: IntervalSums, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    sums.add(lasting(5))
    with sums._folding:
        assert sums.read() == Sums(known=0, total_ns=0, unresolved=0, waiting=1)
    assert set(clock.sleeps_s) == {0.0002}
    assert clock.now_s == pytest.approx(5.1, abs=0.0005)
    assert sums.read() == Sums(1, 5, 0, 0)


def test_what_is_forgotten_while_a_fold_is_interrupted_is_forgotten(
    sums: IntervalSums, monkeypatch: pytest.MonkeyPatch
) -> None:
    Clock(monkeypatch)
    sums.add(lasting(5))
    with sums._folding:
        sums.clear()
    assert sums.read() == Sums(0, 0, 0, 0)


def test_whoever_adds_does_not_wait_for_somebody_who_folds(
    sums: IntervalSums, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    with sums._folding:
        for _ in range(40):
            sums.add(lasting(1))
    assert (clock.sleeps_s, len(sums._ended)) == ([], 40)
    sums.add(lasting(1))
    assert len(sums._ended) == 0


def test_a_forked_child_waits_for_no_thread_of_its_parent(
    sums: IntervalSums, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    sums.add(lasting(5))
    with sums._folding:
        sums.detach()
        assert sums.read() == Sums(1, 5, 0, 0)
    assert clock.sleeps_s == []


@pytest.mark.parametrize(
    ("n", "expected"), [(2, Sums(0, 0, 0, 2)), (3, Sums(0, 0, 1, 2)), (5, Sums(0, 0, 3, 2))]
)
def test_of_those_that_wait_for_a_device_the_newest_beyond_so_many_are_counted_as_unresolved(
    sums: IntervalSums, monkeypatch: pytest.MonkeyPatch, n: int, expected: Sums
) -> None:
    monkeypatch.setattr(_intervals, "KEPT", 2)
    monkeypatch.setattr(IntervalSums, "_fold_run", lambda *_: False)  # a device that finishes nothing
    for number in range(n):
        sums.add(lasting(number))
    assert sums.read() == expected


def test_behind_those_that_wait_for_a_device_32_more_are_added_before_it_is_asked_again(
    sums: IntervalSums, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(IntervalSums, "_fold_run", lambda _, ended: bool(asked.append(len(ended))))
    for number in range(100):
        sums.add(lasting(number))
    assert asked == [32, 64, 96]
