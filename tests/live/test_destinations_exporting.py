"""Whatever an exporter does, who follows the run neither waits nor fails."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pytest
from conditions import LIMIT_S, wait_for
from snapshots import BEGINS, ENDS, snapshot_of

from timing_logger.engine.changes import Change
from timing_logger.live.destinations import Exporting
from timing_logger.live.watcher import Snapshot

SNAPSHOTS = [snapshot_of(n_ranks) for n_ranks in range(1, 9)]


class Screen:
    """Keeps what it is shown; blocks while ``free`` is not set, and raises what is in ``raises``."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, Change | None]] = []
        self.raises: list[BaseException] = []
        self.free, self.busy = Event(), Event()
        self.free.set()
        self.closed = 0

    def show(self, snapshot: Snapshot, change: Change | None) -> None:
        self.busy.set()
        assert self.free.wait(LIMIT_S)
        if self.raises:
            raise self.raises.pop(0)
        self.seen.append((len(snapshot.ranks), change))

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def screen() -> Iterator[Screen]:
    """Yield a screen that lets its thread go in the end."""
    screen = Screen()
    yield screen
    screen.free.set()


def test_what_is_shown_arrives_with_its_change_and_the_last_before_the_end(screen: Screen) -> None:
    exporting = Exporting("screen", lambda: screen, print)
    exporting.show(SNAPSHOTS[0], BEGINS)
    wait_for(lambda: exporting.shown == 1)
    exporting.show(SNAPSHOTS[1], None)
    assert exporting.close()
    assert screen.seen == [(1, BEGINS), (2, None)]
    assert screen.closed == 1


def test_a_slow_exporter_gets_the_latest_snapshot_and_no_other(screen: Screen) -> None:
    exporting = Exporting("screen", lambda: screen, print)
    screen.free.clear()
    exporting.show(SNAPSHOTS[0])
    assert screen.busy.wait(LIMIT_S)
    for snapshot in SNAPSHOTS[1:]:
        exporting.show(snapshot)
    screen.free.set()
    exporting.close()
    assert [n_ranks for n_ranks, _ in screen.seen] == [1, 8]
    assert exporting.replaced == 6


def test_a_change_is_shown_though_its_snapshot_was_replaced(screen: Screen) -> None:
    exporting = Exporting("screen", lambda: screen, print)
    screen.free.clear()
    exporting.show(SNAPSHOTS[0])
    assert screen.busy.wait(LIMIT_S)
    exporting.show(SNAPSHOTS[1], BEGINS)
    exporting.show(SNAPSHOTS[2])
    screen.free.set()
    exporting.close()
    assert screen.seen == [(1, None), (3, BEGINS)]


def test_a_change_that_could_not_be_shown_is_shown_later_unless_a_newer_one_is(screen: Screen) -> None:
    exporting = Exporting("screen", lambda: screen, print)
    screen.raises = [OSError("dead"), OSError("dead")]
    for n_errors, change in enumerate((BEGINS, None), start=1):
        exporting.show(SNAPSHOTS[0], change)
        wait_for(lambda n=n_errors: exporting.errors == n)  # type: ignore[misc]
    exporting.show(SNAPSHOTS[1])
    wait_for(lambda: exporting.shown == 1)
    exporting.show(SNAPSHOTS[2], ENDS)
    exporting.close()
    assert screen.seen == [(2, BEGINS), (3, ENDS)]


@pytest.mark.parametrize("error", [ConnectionRefusedError("refused.\n"), KeyError("x"), SystemExit(1)])
def test_a_failure_is_counted_each_time_and_said_once(screen: Screen, error: BaseException) -> None:
    said: list[str] = []
    exporting = Exporting("screen", lambda: screen, said.append)
    screen.raises = [error] * 3
    for n_errors in (1, 2, 3):
        exporting.show(SNAPSHOTS[0])
        wait_for(lambda n=n_errors: exporting.errors == n)  # type: ignore[misc]
    exporting.show(SNAPSHOTS[1])
    exporting.close()
    assert exporting.errors == 3
    reason = " ".join(str(error).split()).strip(".")
    assert said == [f"screen cannot show the job: {reason}. The job goes on; further failures are not told."]
    assert screen.seen == [(2, None)]


def test_what_cannot_be_opened_is_opened_later(screen: Screen) -> None:
    said: list[str] = []
    refusals = [OSError("the port is in use")]

    def open_it() -> Screen:
        if refusals:
            raise refusals.pop()
        return screen

    exporting = Exporting("screen", open_it, said.append)
    exporting.show(SNAPSHOTS[0])
    wait_for(lambda: exporting.errors == 1)
    exporting.show(SNAPSHOTS[1])
    exporting.close()
    assert "the port is in use" in said[0]
    assert screen.seen == [(2, None)]


def test_the_end_does_not_wait_for_an_exporter_that_is_stuck(screen: Screen) -> None:
    said: list[str] = []
    exporting = Exporting("screen", lambda: screen, said.append)
    screen.free.clear()
    exporting.show(SNAPSHOTS[0])
    assert screen.busy.wait(LIMIT_S)
    assert not exporting.close(timeout_s=0.01)
    assert said == [
        "screen is not done after 0.01 s, and is left behind. The job goes on; further failures are not told."
    ]


def test_nobody_who_cannot_be_told_stops_an_exporter(screen: Screen) -> None:
    def say(text: str) -> None:
        raise BrokenPipeError(text)

    exporting = Exporting("screen", lambda: screen, say)
    screen.raises = [OSError()]
    exporting.show(SNAPSHOTS[0])
    wait_for(lambda: exporting.errors == 1)
    exporting.show(SNAPSHOTS[1])
    exporting.close()
    assert screen.seen == [(2, None)]


def test_an_exporter_that_was_shown_nothing_is_never_opened() -> None:
    opened: list[None] = []
    exporting = Exporting("screen", lambda: opened.append(None) or Screen(), print)
    exporting.close()
    assert opened == []
