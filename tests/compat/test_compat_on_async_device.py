"""Timers, profilers and copies on a real asynchronous accelerator: the tests' own (``async_device``)."""

from __future__ import annotations

from functools import partial

import pytest
from device_runner import on_device

one_process = partial(on_device, "timers.py")


# -- timers that are started and stopped -----------------------------------------------------------------


def test_before_the_process_has_used_its_device_the_host_times_and_uses_none() -> None:
    assert one_process("before_the_device_is_used") == [[False, "host"]]


def test_a_cuda_timer_states_its_last_run_and_while_it_runs_the_one_before() -> None:
    assert one_process("cuda_timer") == [[True, True, True]]


def test_a_cuda_timer_waits_when_it_is_read_and_only_for_its_end() -> None:
    assert one_process("cuda_timer_waits") == [[True, True, True]]


def test_what_a_graph_captures_is_not_timed() -> None:
    assert one_process("cuda_timer_captured") == [[1, 0.0]]


def test_cuda_timers_run_side_by_side() -> None:
    assert one_process("cuda_timers") == [[True, True, True]]


# -- regions ---------------------------------------------------------------------------------------------


def test_a_region_lasts_as_long_as_the_device_worked_in_it() -> None:
    assert one_process("region_timer") == [[True] * 4]


def test_a_region_timer_waits_when_it_is_read_and_only_for_its_end() -> None:
    assert one_process("region_timer_waits") == [[True] * 4]


def test_cuda_sync_waits_before_the_start_and_at_the_end() -> None:
    assert one_process("region_timer_that_synchronises") == [[True] * 6]


def test_a_region_in_a_stream_that_is_full_of_marks_is_counted_as_unresolved() -> None:
    ((calls, waited_for, known, unresolved),) = one_process("region_timer_in_a_full_stream")
    assert (calls, waited_for, known + unresolved) == (512, True, 512)
    assert 200 < known <= 256  # a few were counted before


def test_a_region_that_a_graph_captures_is_only_counted() -> None:
    assert one_process("region_timer_captured") == [[2, [0, 2], [1, 2], 1]]


def test_the_row_of_a_region_states_its_stream_and_what_its_timer_states() -> None:
    rows = [[7, "REGION", "host"], [7, "REGION", "device"]]
    ((found, in_its_stream, (row_ms, timer_ms)),) = one_process("region_rows")
    assert (found, in_its_stream) == (rows, True)
    assert row_ms == pytest.approx(timer_ms)
    assert row_ms >= 5


# -- the sampled profiler --------------------------------------------------------------------------------


def test_the_sampled_profiler_waits_for_nothing_and_writes_what_the_device_has_done() -> None:
    flushed = [False, False, True]
    assert one_process("event_profiler_waits") == [[flushed, [], True, list(range(10)), True]]


def test_a_copy_off_the_current_stream_is_timed_in_its_own() -> None:
    assert one_process("event_profiler_in_another_stream") == [[True, True, True, False]]


def test_work_that_is_captured_into_a_graph_is_no_row_of_the_sampled_profiler() -> None:
    assert one_process("event_profiler_captured") == [[1, []]]


# -- the runtime profiler --------------------------------------------------------------------------------


def test_device_times_are_the_devices_and_come_when_it_is_done() -> None:
    assert one_process("runtime_profiler") == [[[False, []], [[1, 2]] * 4, [True] * 3]]


def test_a_step_that_needs_no_device_waits_for_the_one_before_it() -> None:
    assert one_process("runtime_profiler_with_a_captured_step") == [[[False, []], 3, [1, 2, 3], [1, 3], True]]


def test_the_runtime_profiler_waits_for_the_device_only_if_asked_for() -> None:
    assert one_process("runtime_profiler_that_synchronises") == [[False, False, True, True]]


def test_a_step_that_is_captured_runs_and_is_not_timed() -> None:
    assert one_process("runtime_profiler_captured") == [[3, 1, []]]


# -- parts of a step -------------------------------------------------------------------------------------


def test_parts_of_a_step_are_timed_by_the_device_and_waits_by_the_host() -> None:
    assert one_process("operations") == [[["DATA", "host", "ok"], ["FORWARD", "device", "ok"]]]


# -- copies ----------------------------------------------------------------------------------------------


def test_copies_from_and_to_pinned_memory_are_rows_and_nobody_waits() -> None:
    rows = [[operation, 8, "fc", "device", "ok", True] for operation in ("H2D", "D2H")]
    assert one_process("copies_go_on") == [[True, True, True, [0, 1], rows]]


def test_a_copy_that_blocks_can_be_read_at_once_and_is_pinned_only_if_asked_for() -> None:
    assert one_process("copies_that_block") == [[[False, [0, 1, 2]], [True, [0, 1, 2]]]]


def test_copies_within_a_device_and_to_another_are_d2d() -> None:
    assert one_process("copies_between_devices") == [
        [True, ["D2D", "D2D"], "asyncdev:1", [0, 1, 2], [0, 1, 2]]
    ]


def test_copies_that_could_not_be_read_safely_are_refused() -> None:
    ((unpinned, wrong_way),) = one_process("copies_that_are_refused")
    assert "out is not pinned: allocate it with pin_memory=True" in unpinned
    assert "device is the host, and tensor is on asyncdev:0: use copy_to_host" in wrong_way


def test_payloads_are_moved_to_where_they_travel_from_and_back() -> None:
    (found,) = one_process("payloads")
    assert found["payload"] == ["cpu"]
    assert found["mean"] == ["asyncdev:0", [0, -4, 0, 0]]
    on_device = [["COMPRESS"], ["D2H"], ["D2H"], ["DECOMPRESS"], *[["H2D"]] * 4]
    assert found["rows"] == sorted([*[[*row, "device"] for row in on_device], ["MERGE", "host"]])


# -- a device that has failed ----------------------------------------------------------------------------


def test_on_a_device_that_has_failed_nothing_raises_and_nothing_is_known() -> None:
    rows = [["FORWARD", "device", "unresolved"]]
    assert on_device("failed_device.py", "timing_afterwards") == [[rows, [True] * 3, 1]]
