"""The host's two clocks: read as one moment, and a step of the wall clock is found."""

from __future__ import annotations

import pytest

from timing_logger.recording import clock
from timing_logger.recording.clock import WallClock, read_anchor

MS = 1_000_000


def test_of_several_readings_the_one_that_took_the_least_time_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    instants = iter([0, 100, 1000, 1011, 2000, 2050])
    walls = iter([7, 8, 9])
    monkeypatch.setattr(clock, "perf_counter_ns", lambda: next(instants))
    monkeypatch.setattr(clock, "unix_ns", lambda: next(walls))
    assert read_anchor(tries=3) == (1005, 8, 6)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The wall clock's lead over the other one, which goes on by 10 ns with each reading."""
    state = {"now": 0, "ahead": 10**18}

    def read() -> int:
        state["now"] += 10
        return state["now"]

    monkeypatch.setattr(clock, "perf_counter_ns", read)
    monkeypatch.setattr(clock, "unix_ns", lambda: state["now"] + 5 + state["ahead"])
    return state


@pytest.mark.parametrize("sign", [1, -1])
def test_a_step_of_more_than_a_millisecond_is_an_anchor_of_its_own(clocks: dict[str, int], sign: int) -> None:
    wall = WallClock()
    assert wall.wall_offset_ns() == 10**18
    clocks["ahead"] += sign * (MS + 5)  # no more than what is uncertain beyond it
    assert wall.wall_offset_ns() == 10**18
    clocks["ahead"] += sign
    assert wall.wall_offset_ns() == 10**18 + sign * (MS + 6)
    assert [anchor.wall_offset_ns for anchor in wall.anchors] == [10**18, 10**18 + sign * (MS + 6)]


def test_of_many_steps_the_first_anchor_and_the_latest_are_kept(clocks: dict[str, int]) -> None:
    wall = WallClock()
    for _ in range(1002):
        clocks["ahead"] += 2 * MS
        wall.wall_offset_ns()
    steps = [(anchor.wall_offset_ns - 10**18) // (2 * MS) for anchor in wall.anchors]
    assert steps == [0, *range(4, 1003)]
