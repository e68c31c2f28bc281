"""The figures of a page are made rarely: after ten seconds, and after nine times as long as they took."""

from __future__ import annotations

from typing import Any, cast

import pytest
from snapshots import snapshot_of

from timing_logger.live import run_page
from timing_logger.live.run_page import _Figures
from timing_logger.live.watcher import Watcher


class Clock:
    """Stands for the module ``time``, and goes on only when told to."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return 1_700_000_000.0 + self.now_s


class Slow:
    """A watcher whose rows take a while to read, and may fail."""

    def __init__(self, clock: Clock, took_s: float) -> None:
        self._clock, self._took_s = clock, took_s
        self.fails = False

    def timings(self) -> None:
        self._clock.now_s += self._took_s
        if self.fails:
            raise ValueError("damaged")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(run_page, "time", clock)
    monkeypatch.setattr(run_page, "figures_of", lambda *_: None)
    return clock


def figures_that_take(took_s: float, clock: Clock) -> tuple[_Figures, Slow]:
    watcher = Slow(clock, took_s)
    return _Figures(cast("Watcher", watcher)), watcher


def renew(figures: _Figures, *, has_ended: bool = False) -> int:
    """Have them renewed if they are due, and return how often they were made."""
    figures.renew(snapshot_of(2), has_ended=has_ended)
    return figures.number


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.5, 10.0), (2.0, 18.0)])
def test_they_are_made_again_after_ten_seconds_or_nine_times_as_long_as_they_took(
    clock: Clock, took_s: float, pause_s: float
) -> None:
    figures, _ = figures_that_take(took_s, clock)
    assert renew(figures) == 1
    clock.now_s += pause_s - 0.25
    assert renew(figures) == 1
    clock.now_s += 0.25
    assert renew(figures) == 2


def test_they_say_when_they_were_made_and_of_how_long_a_time(clock: Clock) -> None:
    figures, _ = figures_that_take(2.0, clock)
    renew(figures)
    assert (figures.unix_s, figures.window_s, figures.are_last) == (1_700_001_002.0, 30.0, False)


def test_those_of_the_end_are_made_at_once_and_once(clock: Clock) -> None:
    figures, _ = figures_that_take(2.0, clock)
    renew(figures)
    assert renew(figures, has_ended=True) == 2
    assert figures.are_last
    clock.now_s += 100.0
    assert renew(figures, has_ended=True) == 2
    assert renew(figures) == 3


def test_what_cannot_be_made_is_not_counted_and_is_tried_again_as_rarely(clock: Clock) -> None:
    figures, watcher = figures_that_take(2.0, clock)
    watcher.fails = True
    for left_s in (0.0, 18.0):
        clock.now_s += left_s
        with pytest.raises(ValueError, match="damaged"):
            renew(figures)
    watcher.fails = False
    assert renew(figures) == 0
    clock.now_s += 18.0
    assert renew(figures) == 1


def test_nothing_is_made_for_a_page_that_nobody_asked_for_within_half_a_minute(
    clock: Clock,
) -> None:
    seen: list[Any] = []

    class Seen:
        def snapshot(self) -> Any:
            seen.append(None)
            return snapshot_of(2)

        def timings(self) -> None:
            """There are none."""

    page = run_page.RunPage(cast("Watcher", Seen()), "run", 1.0, seen.append)
    clock.now_s += 30.0
    page.look()
    assert page._version == 1
    clock.now_s += 0.5
    page.look()
    assert page._version == 1
    assert len(seen) == 2
    assert page.served(run_page.NOW) is not None
    page.look()
    assert page._version == 2
