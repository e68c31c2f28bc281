"""Intervals one by one: what is asked of the device for them, and when they are lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from scripted_device import ScriptedAccelerator, ScriptedStream

from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.device import accelerator, devices
from timing_logger.recording.device.devices import Device, StreamMarks, device
from timing_logger.recording.device.intervals import (
    DeviceInterval,
    HostInterval,
    new_interval,
    open_interval,
    wait_for_stream,
)

FAILURE = "CUDA error: device-side assert triggered"


def opened(stream: Any = None) -> DeviceInterval:
    interval = open_interval(stream)
    assert isinstance(interval, DeviceInterval)
    return interval


@pytest.fixture
def on(scripted_device: ScriptedAccelerator) -> Device:
    """The one device, which has been used."""
    return device(scripted_device, 0)  # type: ignore[arg-type]


# -- the host's -------------------------------------------------------------------------------------------


def test_an_interval_of_the_host_is_known_as_soon_as_it_has_ended() -> None:
    interval = HostInterval()
    assert interval.elapsed_ns is None
    assert interval.columns == (interval.start_ns, None, "host")
    interval.end()
    interval.wait()
    assert interval.end_ns is not None
    assert interval.elapsed_ns == interval.end_ns - interval.start_ns >= 0
    assert interval.columns == (interval.start_ns, interval.end_ns, "host")


# -- opening ----------------------------------------------------------------------------------------------


def test_an_interval_knows_its_device_its_stream_and_when_it_was_issued(
    on: Device, scripted_device: ScriptedAccelerator
) -> None:
    scripted_device.stream_id = 7
    before_ns = perf_counter_ns()
    interval = opened()
    assert before_ns <= interval.issued_ns <= perf_counter_ns()
    assert interval.stream_name == "scripted:0/7"
    assert interval.columns == (interval, None, "device")
    assert (interval.device, interval.ended, interval.lost, interval.elapsed_ns) == (on, False, False, None)


def test_it_begins_in_the_stream_that_is_given(scripted_device: ScriptedAccelerator) -> None:
    interval = opened(ScriptedStream(3))
    assert interval.stream_name == "scripted:0/3"
    assert scripted_device.asks == ["record"]


def test_without_a_device_the_host_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "find_accelerator", lambda: None)
    assert isinstance(open_interval(), HostInterval)


def test_a_torch_that_cannot_say_whether_there_is_a_device_leaves_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise RuntimeError("half imported")

    monkeypatch.setattr(accelerator, "find_accelerator", refuse)
    assert isinstance(open_interval(), HostInterval)


@pytest.mark.parametrize(("used", "is_timed"), [([0], True), ([], False), ([0, 1], False)])
def test_a_thread_that_chose_no_device_is_timed_on_the_only_one_in_use(
    scripted_device: ScriptedAccelerator, monkeypatch: pytest.MonkeyPatch, used: list[int], is_timed: bool
) -> None:
    monkeypatch.setattr(scripted_device, "has_context", lambda index: False)
    monkeypatch.setattr(scripted_device, "used_devices", lambda: used, raising=False)
    interval = open_interval()
    assert isinstance(interval, DeviceInterval if is_timed else HostInterval)
    assert devices.is_in_use(0) == is_timed


def test_a_device_that_was_timed_before_counts_as_used(
    on: Device, scripted_device: ScriptedAccelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripted_device, "has_context", lambda index: False)
    assert opened().device is on


@pytest.mark.parametrize("stream", [None, ScriptedStream(3)])
def test_while_a_stream_is_captured_nothing_is_marked_and_the_block_is_counted(
    on: Device, scripted_device: ScriptedAccelerator, stream: Any
) -> None:
    scripted_device.capturing = True
    assert open_interval(stream) is None
    assert (on.captured.value, scripted_device.asks) == (1, [])


def test_in_a_full_stream_nothing_is_marked_and_the_block_is_counted(
    on: Device, scripted_device: ScriptedAccelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamMarks, "is_full", lambda marks: True)
    interval = opened()
    assert (interval.lost, interval.stream_name, on.full.value) == (True, "scripted:0/0", 1)
    assert scripted_device.asks == []
    assert on.pool.made == 0


def test_each_interval_counts_in_its_stream(on: Device, scripted_device: ScriptedAccelerator) -> None:
    scripted_device.busy = True
    held = [opened() for _ in range(devices.MOST_INTERVALS)]
    assert not any(interval.lost for interval in held)
    assert opened().lost
    assert not opened(ScriptedStream(5)).lost
    assert on.full.value == 1


# -- failures ---------------------------------------------------------------------------------------------


def test_after_a_failure_an_interval_is_lost_without_a_look(
    on: Device, scripted_device: ScriptedAccelerator
) -> None:
    scripted_device.failed = FAILURE
    scripted_device.looks_fail_with = RuntimeError("looked at")
    interval = opened()
    assert (interval.device, interval.lost, interval.stream) == (on, True, None)
    assert scripted_device.asks == []
    interval.end()
    assert (interval.ended, scripted_device.asks) == (True, [])


@pytest.mark.parametrize(
    ("said", "found", "captured"),
    [
        ("CUDA error: operation not permitted when stream is capturing", type(None), 1),
        ("invalid argument", HostInterval, 0),
        (FAILURE, DeviceInterval, 0),
    ],
)
def test_a_look_that_fails_is_about_a_capture_or_a_failure_or_leaves_the_host(
    on: Device, scripted_device: ScriptedAccelerator, said: str, found: type, captured: int
) -> None:
    scripted_device.looks_fail_with = RuntimeError(said)
    interval = open_interval()
    assert type(interval) is found
    assert on.captured.value == captured
    assert scripted_device.failed == (f"RuntimeError({said!r})" if found is DeviceInterval else "")
    if isinstance(interval, DeviceInterval):
        assert (interval.device, interval.lost) == (on, True)


class OutOfTime(RuntimeError):
    """A user's own, raised by a signal handler."""


class OfTorch(RuntimeError):
    """One of torch's own kinds."""


OfTorch.__module__ = "torch.cuda"


@pytest.mark.parametrize("moment", ["look", "begin", "end", "wait"])
def test_an_error_that_torch_did_not_raise_is_passed_on(
    scripted_device: ScriptedAccelerator, moment: str
) -> None:
    interval = None if moment in ("look", "begin") else opened()
    if moment == "wait":
        assert interval is not None
        interval.end()
    act = open_interval if interval is None else getattr(interval, moment)
    for error in (OutOfTime(), OfTorch()):
        setattr(scripted_device, "looks_fail_with" if moment == "look" else "fail_with", error)
        if isinstance(error, OutOfTime):
            with pytest.raises(OutOfTime):
                act()
        else:
            act()


def test_a_start_or_an_end_that_torch_refuses_loses_the_interval(
    on: Device, scripted_device: ScriptedAccelerator
) -> None:
    early, ended = opened(), opened()
    ended.end()
    scripted_device.fail_with = RuntimeError("no such event")
    early.end()
    ended.wait()
    assert [early.lost, ended.lost, opened().lost] == [True, True, True]
    assert scripted_device.failed == ""
    scripted_device.fail_with = RuntimeError(FAILURE)
    assert opened().lost
    assert FAILURE in scripted_device.failed


# -- the end ----------------------------------------------------------------------------------------------


def test_a_block_that_leaves_another_device_current_ends_on_its_own(
    scripted_device: ScriptedAccelerator,
) -> None:
    interval = opened()
    scripted_device.index = 1
    interval.end()
    assert interval.ended
    scripted_device.index = 0
    interval.wait()
    assert interval.elapsed_ns == scripted_device.work_ns


@pytest.mark.parametrize("in_own_stream", [False, True])
def test_an_end_within_a_capture_is_not_marked(
    scripted_device: ScriptedAccelerator, in_own_stream: bool
) -> None:
    interval = opened()
    scripted_device.own_stream_captured = scripted_device.capturing = True
    interval.end("own" if in_own_stream else None)  # type: ignore[arg-type]
    assert (interval.ended, interval.lost) == (True, True)
    assert scripted_device.asks == ["record"]


@pytest.mark.parametrize(
    ("lost_before", "lost", "in_background"), [(False, True, False), (True, False, True)]
)
def test_what_code_in_c_did_with_an_interval_is_noted(
    on: Device, lost_before: bool, lost: bool, in_background: bool
) -> None:
    stream: Any = ScriptedStream(3)
    interval = new_interval(on, None if lost_before else on.pool.take(), stream, 5)
    assert (interval.lost, interval.issued_ns, interval.ended) == (lost_before, 5, False)
    interval.marked_in_c(9, lost, in_background)
    assert (interval.issued_ns, interval.ended, interval.lost) == (9, True, True)
    assert interval.stream is (None if in_background else stream)
    assert interval.stream_name == ("" if in_background else "scripted:0/3")


# -- asking -----------------------------------------------------------------------------------------------


def test_what_the_device_has_not_passed_is_not_known(scripted_device: ScriptedAccelerator) -> None:
    scripted_device.busy = True
    interval = opened()
    assert not interval.has_begun()
    interval.end()
    assert not interval.ask()
    scripted_device.pass_one()
    assert interval.has_begun()
    assert not interval.ask()
    scripted_device.pass_one()
    assert interval.ask()
    assert interval.elapsed_ns == scripted_device.work_ns
    asked = len(scripted_device.asks)
    assert interval.ask()
    interval.wait()
    assert len(scripted_device.asks) == asked, "it is known"


def test_where_it_cannot_be_asked_or_is_lost_it_counts_as_begun(scripted_device: ScriptedAccelerator) -> None:
    scripted_device.busy = True
    interval = opened()
    scripted_device.harmless = False
    assert interval.has_begun()
    scripted_device.harmless, interval.lost = True, True
    assert interval.has_begun()
    assert scripted_device.asks == ["record"]


def test_one_that_is_open_or_lost_is_not_waited_for(scripted_device: ScriptedAccelerator) -> None:
    interval = opened()
    interval.wait()
    interval.end()
    interval.lost = True
    interval.wait()
    assert interval.ask()
    assert scripted_device.asks == ["record", "record"]


def test_one_on_a_device_that_failed_is_lost_without_asking(scripted_device: ScriptedAccelerator) -> None:
    interval = opened()
    interval.end()
    scripted_device.failed = FAILURE
    assert interval.ask()
    assert (interval.lost, interval.elapsed_ns) == (True, None)
    assert scripted_device.asks == ["record", "record"]


def test_a_start_that_comes_after_the_end_is_waited_for_as_well(scripted_device: ScriptedAccelerator) -> None:
    scripted_device.busy = True
    interval = opened()
    interval.end("own")  # type: ignore[arg-type]  # which passes marks at once
    interval._events.end.synchronize = lambda: None
    interval.wait()
    assert interval.lost, "it ended before it began"
    assert [ask for ask in scripted_device.asks if "synchronize" in ask] == ["synchronize beside captures"]


@pytest.mark.parametrize(
    ("elapsed_ms", "elapsed_ns"), [(-0.001001, None), (-0.001, 0), (0.0, 0), (0.0000006, 1), (2.5, 2_500_000)]
)
def test_up_to_a_microsecond_less_than_nothing_is_nothing(
    on: Device, elapsed_ms: float, elapsed_ns: int | None
) -> None:
    event: Any = SimpleNamespace(query=lambda: True, elapsed_time=lambda other: elapsed_ms)
    interval = new_interval(on, None, None, 5)
    interval._events, interval.lost = (event, event), False
    assert interval.ask()
    assert (interval.elapsed_ns, interval.lost) == (elapsed_ns, elapsed_ns is None)
    interval._events = None


def test_events_go_back_to_their_pool_unless_there_were_none(on: Device) -> None:
    interval, without = opened(), new_interval(on, None, None, 5)
    assert (on.pool.made, len(on.pool.free)) == (1, 0)
    del without
    assert len(on.pool.free) == 0
    del interval
    assert len(on.pool.free) == 1
    DeviceInterval.__new__(DeviceInterval).__del__()


# -- waiting for a stream ---------------------------------------------------------------------------------


def test_a_stream_is_waited_for_by_a_mark_of_its_own(scripted_device: ScriptedAccelerator) -> None:
    scripted_device.busy = True
    wait_for_stream()
    assert "synchronize beside captures" in scripted_device.asks
    assert scripted_device.queue == []


def test_a_stream_that_is_captured_is_not_waited_for(scripted_device: ScriptedAccelerator) -> None:
    scripted_device.capturing = True
    wait_for_stream()
    assert scripted_device.asks == []
