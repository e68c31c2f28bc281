"""A thread that repeats something troubles nobody: each kind of its errors is logged once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from limits import LIMIT_S

from timing_logger.recording import repeating_thread
from timing_logger.recording.mailbox import Mailbox
from timing_logger.recording.repeating_thread import RepeatingThread


class NotAwaited(Mailbox[None]):
    """Refuses to be waited for."""

    def take(self, timeout_s: float) -> None:
        raise AssertionError("it waits for its end")


def nothing() -> None:
    pass


def thread(
    begin: Callable[[], None] = nothing,
    repeat: Callable[[], None] = nothing,
    end: Callable[[], None] = nothing,
    *,
    interval_s: Callable[[], float] = lambda: LIMIT_S,
) -> RepeatingThread:
    """One that was not started."""
    return RepeatingThread("mine", "lines", begin=begin, repeat=repeat, end=end, interval_s=interval_s)


def test_it_begins_repeats_and_ends_once_it_is_closed() -> None:
    done: list[str] = []
    repeated = threading.Event()

    def repeat() -> None:
        done.append("repeat")
        if len(done) == 3:
            repeated.set()

    mine = thread(
        lambda: done.append("begin"),
        repeat,
        lambda: done.append("end"),
        interval_s=lambda: 0 if len(done) < 3 else LIMIT_S,
    )
    mine.start()
    assert repeated.wait(LIMIT_S)
    mine.close(LIMIT_S)
    assert done == ["begin", "repeat", "repeat", "end"]


def test_nothing_is_repeated_before_the_interval_is_over() -> None:
    done: list[str] = []
    mine = thread(nothing, lambda: done.append("repeat"), lambda: done.append("end"))
    mine.start()
    mine.close(LIMIT_S)
    assert done == ["end"]


def test_closing_it_again_waits_for_nothing() -> None:
    mine = thread()
    mine.start()
    mine.close(LIMIT_S)
    mine._ended = NotAwaited()
    mine.close(LIMIT_S)


def test_it_may_close_itself() -> None:
    ended = threading.Event()
    mine = thread(lambda: mine.close(LIMIT_S), nothing, ended.set)
    mine._ended = NotAwaited()
    mine.start()
    assert ended.wait(LIMIT_S)
    assert mine.failed == 0


def test_one_that_does_not_end_is_not_waited_for_longer_than_told() -> None:
    released = threading.Event()
    mine = thread(lambda: assert_comes(released))
    mine.start()
    mine.close(0)
    released.set()


def assert_comes(event: threading.Event) -> None:
    assert event.wait(LIMIT_S)


def test_an_error_of_what_it_does_ends_nothing_and_is_counted() -> None:
    def fail() -> None:
        raise SystemExit("mine")

    mine = thread()
    mine.harmless(fail)
    mine.harmless(fail)
    assert mine.failed == 2
    assert mine.last_error == "lines could not be written: SystemExit('mine')"


def test_trouble_of_each_kind_is_logged_once_and_the_latest_kept(caplog: pytest.LogCaptureFixture) -> None:
    mine = thread()
    for message in ("the disk is full: 1", "the disk is full: 2", "the file was cut: 3"):
        mine.report(message)
    assert [record.getMessage() for record in caplog.records] == [
        "timing logger: the disk is full: 1",
        "timing logger: the file was cut: 3",
    ]
    mine.report("the disk is full: 4")
    assert mine.last_error == "the disk is full: 4"


def test_where_the_system_has_no_thread_left_it_says_so_and_closes_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    mine = thread()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    mine.start()
    assert mine.last_error == 'there are no lines: RuntimeError("can\'t start new thread")'
    mine._ended = NotAwaited()
    mine.close(LIMIT_S)


def test_the_processor_time_of_what_it_does_is_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, instants_ns = thread(), iter([10, 13, 20, 25])
    monkeypatch.setattr("time.thread_time_ns", lambda: next(instants_ns))
    mine.harmless(nothing)
    mine.harmless(nothing)
    assert mine.cpu_ns == 8


class Clock(Mailbox[None]):
    """A clock that stands still but for waits, which end ``early_s`` too soon; the fourth is the last."""

    def __init__(self) -> None:
        self.now_s, self.early_s, self.waits_s = 100.0, 0.0, list[float]()

    def monotonic(self) -> float:
        return self.now_s

    def take(self, timeout_s: float) -> None:
        self.waits_s.append(timeout_s)
        self.now_s += timeout_s - self.early_s
        if len(self.waits_s) < 4:
            raise TimeoutError


@pytest.mark.parametrize(
    ("late_s", "early_s", "waits_s"), [(0, 0, [10] * 4), (25, 0, [10] * 4), (0, 1, [10, 11, 11, 11])]
)
def test_what_is_late_is_not_made_up_for_and_what_was_early_is(
    late_s: float, early_s: float, waits_s: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    clock.early_s = early_s

    def repeat() -> None:
        clock.now_s += late_s

    mine = thread(nothing, repeat, nothing, interval_s=lambda: 10.0)
    mine._ending = clock
    stand_in = SimpleNamespace(monotonic=clock.monotonic, thread_time_ns=lambda: 0)
    monkeypatch.setattr(repeating_thread, "time", stand_in)
    mine._run()
    assert clock.waits_s == waits_s
