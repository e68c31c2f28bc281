"""The asynchronous device for tests: what it promises to the tests that stand on it.

No instants are compared with the host's clock: streams are held by gates, and a kernel lasts at least as long
as stated.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import async_device
import pytest
from device_runner import on_device

pytestmark = pytest.mark.slow("of what tests are run with: make test-deep runs it where that changes")

one_process = partial(on_device, "device_itself.py")
two_ranks = partial(on_device, "process_group.py", ranks=2)


def test_the_host_goes_on_while_a_kernel_runs() -> None:
    assert one_process("host_goes_on") == [[False, True]]


def test_kernels_of_a_stream_run_in_order() -> None:
    assert one_process("kernels_in_order") == [[0, 1, 2, 3, 4]]


def test_two_streams_run_beside_one_another() -> None:
    assert one_process("streams_beside_one_another") == [[False, True]]


def test_events_measure_elapsed_time() -> None:
    (elapsed_ms,) = one_process("events_measure")
    assert elapsed_ms >= 20


def test_events_that_were_not_passed_measure_nothing() -> None:
    (said,) = one_process("too_early_to_measure")
    assert "must be completed" in said


def test_an_event_makes_another_stream_wait() -> None:
    assert one_process("stream_waits_for_event") == [[False, True]]


def test_a_full_queue_blocks_who_brings_more() -> None:
    assert one_process("full_queue") == [[False, True]]


def test_streams_get_on_while_somebody_holds_the_interpreters_lock() -> None:
    assert one_process("mark_in_full_stream") == [True]


def test_devices_are_separate() -> None:
    assert one_process("devices_apart") == [[False, True]]


def test_a_copy_between_devices_holds_both_streams_and_not_the_host() -> None:
    assert one_process("copies_between_devices") == [[True, True]]


def test_a_device_that_nobody_used_has_no_context() -> None:
    assert one_process("contexts") == [[True, True, False]]


def test_a_futures_callback_runs_in_a_stream_of_the_pool_after_its_event() -> None:
    ((stream, own, before_the_event),) = one_process("futures_callback")
    assert 1 <= stream <= 32
    assert stream != own
    assert not before_the_event


def test_new_streams_come_in_turn_from_a_pool_of_32() -> None:
    (streams,) = one_process("pool_of_streams")
    assert set(streams) == set(range(1, 33))
    assert streams[32:64] == streams[:32]


def test_autograd_runs_backward_on_a_thread_of_its_own() -> None:
    assert one_process("backward_in_its_thread") == [True]


def test_training_on_the_device_equals_training_on_the_host() -> None:
    (alike,) = one_process("training")
    assert all(alike)


def test_a_copy_from_pinned_memory_does_not_hold_the_host() -> None:
    assert one_process("pinned_copy") == [[True, False, True, True]]


def test_a_storage_that_was_emptied_stays_on_its_device() -> None:
    assert one_process("emptied_storage") == [["asyncdev:1", "asyncdev:1"]]


def test_what_is_captured_runs_when_it_is_replayed() -> None:
    ((while_capturing, afterwards, tasks, elapsed_ms),) = one_process("captured")
    assert (while_capturing, afterwards, tasks) == (True, False, [2])
    assert elapsed_ms >= 2


@pytest.mark.both_cores
def test_a_span_around_a_kernel_gives_a_row_of_its_duration_while_the_host_goes_on() -> None:
    ((went_on, clock, elapsed_ms),) = one_process("timed_span")
    assert (went_on, clock) == (True, "device")
    assert elapsed_ms >= 30


def test_a_device_that_failed_says_so_at_every_call() -> None:
    assert on_device("failed_device.py", "failure") == [["asyncdev error: an illegal address"] * 2]


def test_a_forked_child_cannot_use_its_parents_device() -> None:
    (said,) = on_device("forked_child.py", "child")
    assert said == "asyncdev error: a forked child cannot use the device of its parent"


def test_all_reduce_gives_the_sum_and_returns_before_it_is_done() -> None:
    assert two_ranks("all_reduce_in_background") == [[False, [3, 6], True]] * 2


def test_waiting_for_a_work_holds_the_stream_and_not_the_host() -> None:
    assert two_ranks("wait_holds_the_stream_only") == [[True, True, True]] * 2


def test_a_synchronous_collective_returns_none_and_runs_in_the_current_stream() -> None:
    assert two_ranks("synchronous_all_reduce") == [[None, [3], False]] * 2


def test_a_collective_lasts_as_long_as_stated() -> None:
    assert all(elapsed_ms >= 20 for elapsed_ms in two_ranks("stated_duration"))


def test_a_callback_of_a_collectives_future_runs_after_it_in_another_stream() -> None:
    assert two_ranks("future_of_collective") == [[False, True, [3]]] * 2


def test_a_group_does_as_nccl2_if_it_is_told_to() -> None:
    told = {"name": "nccl2", "complete": True, "held": True, "lasted": True}
    assert two_ranks("as_nccl2") == [told] * 2


def test_a_barrier_holds_the_host() -> None:
    assert two_ranks("barrier_holds_the_host") == [[True]] * 2


def test_collectives_give_what_torch_says() -> None:
    for rank, found in enumerate(two_ranks("each_collective")):
        assert found == {
            "SUM": [3, 6],
            "AVG": [1.5, 3],
            "MAX": [2, 4],
            "MIN": [1, 2],
            "PRODUCT": [2, 8],
            "broadcast": [2, 4],
            "reduce": None if rank else [3, 6],
            "all_gather": [[1, 2], [2, 4]],
            "all_gather_into_tensor": [1, 2, 2, 4],
            "reduce_scatter_tensor": [6] if rank else [3],
            "all_to_all_single": [2, 4] if rank else [1, 2],
        }


def test_messages_arrive_alone_and_in_a_batch_of_one_work() -> None:
    assert two_ranks("messages") == [[[2], [1], 1], [[1], [2], 1]]


def test_coalesced_collectives_are_one_work() -> None:
    assert two_ranks("coalesced") == [[[3], [30], 1]] * 2


def test_the_work_of_coalesced_collectives_may_have_no_future_as_in_torch_2_8() -> None:
    assert two_ranks("batch_without_future") == [[3]] * 2


def test_groups_of_some_ranks_and_of_objects_work() -> None:
    objects = [{"rank": 0}, {"rank": 1}]
    assert two_ranks("several_groups") == [[[3], objects]] * 2


def test_ddp_on_the_device_equals_ddp_on_the_host() -> None:
    assert two_ranks("ddp") == [True, True]


def test_fsdp2_on_the_device_equals_ddp_on_the_host() -> None:
    assert two_ranks("fsdp2") == [True, True]


def test_without_a_compiler_tests_on_the_device_are_skipped_with_that_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert async_device.missing() == "no C++ compiler (no-such-compiler)"
    with pytest.raises(pytest.skip.Exception, match="no-such-compiler"):
        on_device("no_program.py", "nothing")


@pytest.mark.slow("asks torch how to build, in a process of its own")
def test_a_build_that_fails_is_an_error_with_what_the_compiler_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(RuntimeError, match="cannot be built"):
        async_device.build()
