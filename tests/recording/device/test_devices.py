"""The pool of events of a device, the marks in its streams, and its failure."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from scripted_device import ScriptedAccelerator

from timing_logger.recording.device import devices
from timing_logger.recording.device.devices import (
    MOST_INTERVALS,
    EventPool,
    StreamMarks,
    device,
    devices_in_use,
    is_in_use,
)

# -- events -----------------------------------------------------------------------------------------------


@pytest.fixture
def alarms(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is called when few events are left."""
    alarms: list[str] = []
    calls: list[Callable[[], object]] = [lambda: alarms.append("first"), lambda: alarms.append("second")]
    monkeypatch.setattr(devices, "when_events_are_low", calls)
    return alarms


def pool(capacity: int) -> EventPool:
    return EventPool(object, capacity)  # type: ignore[arg-type]


def test_pairs_are_made_as_they_are_needed_and_used_again(alarms: list[str]) -> None:
    mine = pool(8)
    first, second = mine.take(), mine.take()
    assert first is not None
    assert second is not None
    assert mine.made == 2
    assert len({*first, *second}) == 4
    mine.free.append(first)
    assert mine.take() is first
    assert mine.made == 2


def test_to_find_no_pair_is_counted(alarms: list[str]) -> None:
    mine = pool(2)
    assert [mine.take() is None for _ in range(4)] == [False, False, True, True]
    assert (mine.made, mine.exhausted.value) == (2, 2)


def test_some_pairs_are_as_many_as_there_are(alarms: list[str]) -> None:
    mine = pool(5)
    assert [len(mine.take_some(3)) for _ in range(3)] == [3, 2, 0]
    assert mine.exhausted.value == 1
    held = mine.take_some(1)
    assert held == []
    mine = pool(5)
    mine.free.extend(mine.take_some(2))
    assert len(mine.take_some(1)) == 1
    assert (mine.made, len(mine.free)) == (2, 1)


def test_all_are_told_once_that_a_quarter_is_left_and_again_after_half_was_free(alarms: list[str]) -> None:
    mine = pool(8)
    held: list[Any] = [mine.take() for _ in range(5)]
    assert alarms == []
    held.append(mine.take())  # 2 of 8 are left
    assert alarms == ["first", "second"]
    held += [mine.take(), mine.take()]
    assert len(alarms) == 2
    mine.free.extend(held[:4])
    held = [*held[4:], mine.take(), mine.take()]  # 3, then 2 are free: half never was
    assert len(alarms) == 2
    mine.free.extend(held)
    held = [mine.take() for _ in range(5)]
    assert len(alarms) == 2
    held.append(mine.take())
    assert len(alarms) == 4


# -- streams ----------------------------------------------------------------------------------------------


class Interval:
    def __init__(self) -> None:
        self.begun = False

    def has_begun(self) -> bool:
        return self.begun


def test_a_stream_is_full_of_256_intervals_until_the_device_gets_on() -> None:
    marks = StreamMarks()
    held = [Interval() for _ in range(MOST_INTERVALS)]
    for interval in held[:-1]:
        marks.note(interval)
    assert (MOST_INTERVALS, marks.is_full()) == (256, False)
    marks.note(held[-1])
    assert marks.is_full()
    held[31].begun = True  # the first that is asked, as the 32nd
    assert not marks.is_full()
    for _ in range(31):
        marks.note(held[0])
        assert not marks.is_full()
    marks.note(held[0])
    assert marks.is_full(), "32 have passed, and 32 came"


def test_an_interval_that_nobody_holds_any_more_has_begun() -> None:
    marks = StreamMarks()
    held = [Interval() for _ in range(MOST_INTERVALS)]
    for interval in held:
        marks.note(interval)
    assert marks.is_full()
    del interval
    held.clear()
    gc.collect()
    assert not marks.is_full()


def test_many_at_once_count_as_many() -> None:
    marks, interval = StreamMarks(), Interval()
    marks.note(interval, 255)
    assert not marks.is_full()
    marks.note(interval)
    assert marks.is_full()
    interval.begun = True
    assert not marks.is_full()


# -- devices ----------------------------------------------------------------------------------------------


def test_there_is_one_object_for_each_device_in_use(scripted_device: Any) -> None:
    assert not is_in_use(0)
    first, second = device(scripted_device, 0), device(scripted_device, 1)
    assert device(scripted_device, 0) is first
    assert (is_in_use(0), is_in_use(2)) == (True, False)
    assert devices_in_use() == [first, second]
    assert (first.name, second.name) == ("scripted:0", "scripted:1")


def test_each_stream_has_marks_of_its_own(scripted_device: Any) -> None:
    mine = device(scripted_device, 0)
    first, second, without_number = SimpleNamespace(stream_id=0), SimpleNamespace(stream_id=1), object()
    streams: list[Any] = [first, second, without_number]
    marks = [mine.marks_in(stream) for stream in streams]
    assert [mine.marks_in(stream) for stream in streams] == marks
    assert len(set(map(id, marks))) == 3


def test_what_waits_alone_has_one_stream_for_all_blocks(
    scripted_device: ScriptedAccelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    mine = device(scripted_device, 0)  # type: ignore[arg-type]
    monkeypatch.setattr(scripted_device, "new_stream", lambda index: made.append(index) or "own")
    for _ in range(2):
        with mine.waiting_stream():
            assert scripted_device.asks[-1] == "enter a stream"
    assert made == [0]
    assert scripted_device.asks == ["enter a stream", "leave it"] * 2


def test_the_first_failure_of_a_device_is_kept_for_all(scripted_device: Any) -> None:
    first, second = device(scripted_device, 0), device(scripted_device, 1)
    first.note(RuntimeError("no such event"))
    assert first.failed == ""
    first.note(RuntimeError("CUDA error: first"))
    second.note(RuntimeError("CUDA error: second"))
    assert first.failed == second.failed == "RuntimeError('CUDA error: first')"
