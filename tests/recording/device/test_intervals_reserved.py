"""Intervals that are made ahead for code in C++, which the tests play. The device is scripted."""

from __future__ import annotations

from scripted_device import ScriptedAccelerator

from timing_logger.recording.device.devices import MOST_INTERVALS, PAIRS_PER_DEVICE, Device, device
from timing_logger.recording.device.intervals import AT_ONCE, DeviceInterval, reserve


def reserved(accelerator: ScriptedAccelerator) -> list[DeviceInterval]:
    return reserve(accelerator.current_stream(0))  # type: ignore[arg-type]


def begun(accelerator: ScriptedAccelerator) -> list[DeviceInterval]:
    """Those reserved, of each of which the start is marked."""
    intervals = reserved(accelerator)
    for interval in intervals:
        if not interval.lost:
            interval.start_event.record(accelerator.current_stream(0))  # type: ignore[arg-type]
    return intervals


def on(accelerator: ScriptedAccelerator) -> Device:
    return device(accelerator, 0)  # type: ignore[arg-type]


def test_one_turn_serves_many_blocks_and_marks_nothing(scripted_device: ScriptedAccelerator) -> None:
    intervals = reserved(scripted_device)
    assert (len(intervals), scripted_device.asks) == (AT_ONCE, [])
    assert not any(interval.lost or interval.ended for interval in intervals)


def test_an_interval_says_what_was_done_with_it(scripted_device: ScriptedAccelerator) -> None:
    in_stream, behind, without_end, *_ = reserved(scripted_device)
    in_stream.marked_in_c(7, False, False)
    behind.marked_in_c(8, False, True)
    without_end.marked_in_c(9, True, False)
    assert [each.issued_ns for each in (in_stream, behind, without_end)] == [7, 8, 9]
    assert [each.stream_name for each in (in_stream, behind)] == ["scripted:0/0", ""]
    assert [each.lost for each in (in_stream, behind, without_end)] == [False, False, True]


def test_a_stream_that_is_full_gets_no_marks_and_is_counted(scripted_device: ScriptedAccelerator) -> None:
    scripted_device.busy = True
    held = [begun(scripted_device) for _ in range(MOST_INTERVALS // AT_ONCE)]
    (refused,) = reserved(scripted_device)
    assert (refused.lost, on(scripted_device).full.value, len(held[-1])) == (True, 1, AT_ONCE)


def test_a_full_stream_takes_marks_again_when_it_has_got_on(scripted_device: ScriptedAccelerator) -> None:
    scripted_device.busy = True
    held = [begun(scripted_device) for _ in range(MOST_INTERVALS // AT_ONCE)]
    scripted_device.get_on()
    assert (len(reserved(scripted_device)), len(held[0])) == (AT_ONCE, AT_ONCE)


def test_the_last_events_of_a_pool_are_given_out_and_then_one_interval_is_lost(
    scripted_device: ScriptedAccelerator,
) -> None:
    pool = on(scripted_device).pool
    others = [pool.take() for _ in range(PAIRS_PER_DEVICE - 3)]
    last = reserved(scripted_device)
    (without,) = reserved(scripted_device)
    assert (len(last), without.lost, pool.exhausted.value) == (3, True, 1)
    assert None not in others


def test_the_events_of_an_interval_that_nobody_holds_are_free_again(
    scripted_device: ScriptedAccelerator,
) -> None:
    pool = on(scripted_device).pool
    assert len(reserved(scripted_device)) == AT_ONCE
    assert len(pool.free) == pool.made == AT_ONCE


def test_there_is_none_while_a_graph_is_captured_which_is_counted(
    scripted_device: ScriptedAccelerator,
) -> None:
    scripted_device.capturing = True
    assert (reserved(scripted_device), on(scripted_device).captured.value) == ([], 1)


def test_after_a_failure_of_the_device_none_is_marked(scripted_device: ScriptedAccelerator) -> None:
    scripted_device.looks_fail_with = RuntimeError("CUDA error: an illegal memory access was encountered")
    (first,) = reserved(scripted_device)
    scripted_device.looks_fail_with = None
    (second,) = reserved(scripted_device)
    assert (first.lost, second.lost) == (True, True)
    assert "illegal memory access" in on(scripted_device).failed
