"""Timing on an accelerator that goes on by itself: the tests' own (``async_device``), of threads.

Nothing here is scripted: kernels last, streams queue, and backends leave work behind as NCCL does.
"""

from __future__ import annotations

from functools import partial

import pytest
from device_runner import on_device

one_process = partial(on_device, "timing.py")
two_ranks = partial(on_device, "timed_ranks.py", ranks=2)


# -- one process -----------------------------------------------------------------------------------------


@pytest.mark.slow("a rarer thread; that operations are timed on their device is quick")
def test_a_thread_that_chose_no_device_is_timed_on_the_one_that_the_process_uses() -> None:
    """And makes no context on device 0, its current one."""
    assert one_process("thread_without_a_device") == [[[0], False, "device", "asyncdev:1/0", True]]


def test_a_row_lasts_as_long_as_the_device_worked_not_as_the_call_took() -> None:
    ((long, short),) = one_process("durations")
    assert long[0] >= 20
    assert 5 <= short[0] < long[0]
    assert long[1:] == short[1:] == ["device", "ok", "asyncdev:0/0"]


def test_a_row_begins_after_its_issue_and_ends_before_it_was_seen() -> None:
    assert one_process("placement") == [[True, True]]


def test_nothing_on_the_callers_thread_waits_for_the_device() -> None:
    assert one_process("nobody_waits") == [[False, True]]


def test_a_row_states_the_stream_in_which_its_block_began() -> None:
    streams = {"GIVEN": "side", "LEFT": "current", "CURRENT": "side", "REGION": "side", "ALLREDUCE": ""}
    assert one_process("streams") == [[True, True, streams]]


def test_a_block_that_leaves_another_device_current_is_ended_where_it_began() -> None:
    assert one_process("device_left_meanwhile") == [["ok", "asyncdev:0/0", True]]


def test_rows_of_one_stream_come_in_their_order_as_far_as_it_has_got() -> None:
    assert one_process("order_of_rows") == [[25, list(range(50))]]


def test_reading_waits_for_the_blocks_end_alone() -> None:
    assert one_process("reading") == [[True, True, True]]


def test_flush_waits_for_the_device_and_says_when_it_did_not_come_and_rows_of_the_host_go_before() -> None:
    rows = ["ALLREDUCE", "FORWARD"]
    assert one_process("flush_and_the_host") == [[False, [2, 1, 0, 1], rows]]


def test_flush_does_not_wait_for_what_came_after_it() -> None:
    assert one_process("flush_and_what_came_after_it") == [[True, 1]]


def test_close_waits_for_the_device_up_to_the_timeout_and_then_writes_unresolved() -> None:
    assert one_process("close_in_vain") == [["unresolved", "device", False, 1, 0]]


def test_close_takes_what_the_device_brings_in_time() -> None:
    assert one_process("close_in_time") == [["ok", "device", True, 1, 0]]


def test_no_mark_is_made_in_a_stream_that_is_full_of_them() -> None:
    ((resolved, unresolved, full, afterwards),) = one_process("full_stream")
    assert 200 < resolved <= 257  # a few were counted before, and one is in another stream
    assert resolved + unresolved == 513
    assert unresolved == full
    assert afterwards == "ok"


def test_the_pool_of_events_is_never_exceeded() -> None:
    assert one_process("pool_of_events") == [[True, True, True]]


def test_a_capture_is_left_alone() -> None:
    assert one_process("capture") == [[True, ["BEFORE"], 3, True]]


def test_a_block_that_ends_inside_of_a_capture_is_not_marked_and_unresolved() -> None:
    assert one_process("capture_that_begins_inside") == [[0, "unresolved", "asyncdev:0/0"]]


def test_a_forked_child_is_timed_by_the_host_and_ends_no_block_of_its_parent() -> None:
    assert one_process("forked_child") == [["HostInterval", "True", [["FORWARD", "ok"]]]]


# -- two ranks -------------------------------------------------------------------------------------------

of_two_ranks = pytest.mark.slow(
    "a job of two ranks; what one process shows is quick, and so are groups and copies on a scripted device"
)


@of_two_ranks
@pytest.mark.both_groups
def test_an_operation_is_timed_on_the_device_of_its_tensor() -> None:
    lasts = [True, "ok"]
    rows = {"ALLREDUCE": lasts, "IALLREDUCE": lasts, "WAIT": lasts}
    assert two_ranks("tensor_off_the_current_device") == [[rows, True]] * 2


@of_two_ranks
@pytest.mark.both_groups
def test_timing_buckets_holds_no_streams_that_torch_gives_to_others() -> None:
    """The group's own is busy, and the one in which we wait for all of its buckets."""
    for busy, are_ok, are_many in two_ranks("streams_of_the_pool"):
        assert busy <= 2
        assert are_ok
        assert are_many


@of_two_ranks
@pytest.mark.both_groups
def test_the_rows_of_ddp_say_that_the_backward_pass_was_blocked() -> None:
    for found in two_ranks("ddp"):
        assert {"IALLREDUCE", "WAIT"} <= set(found["operations"])
        assert found["threads"] == ["MainThread"]
        assert found["waits last"]
        assert found["waits lie in the stream of backward"]
        assert found["backward lasts as long"]
        assert found["exposed"] == found["hidden"] == [True] * 3


@of_two_ranks
@pytest.mark.both_groups
def test_the_rows_of_fsdp2_lie_in_the_streams_where_it_calls() -> None:
    for found in two_ranks("fsdp2"):
        assert found["statuses"] == ["ok"]
        assert found["gathers"]
        assert found["scatters"]
        assert found["in streams of their own"]
        assert found["as long as they last"]


@of_two_ranks
@pytest.mark.both_groups
def test_coalesced_operations_end_when_they_were_waited_for() -> None:
    rows = ["IRECV", "ISEND", "WAIT"]
    assert two_ranks("coalesced") == [[rows, True, [1.0] * 4]] * 2


@of_two_ranks
@pytest.mark.both_groups
def test_the_optimizer_reduces_on_the_device_where_the_group_can() -> None:
    for found in two_ranks("optimizer"):
        assert found["as one process"]
        assert found["clocks of the reductions"] == ["device"]
        assert not {"D2H", "H2D"} & set(found["operations"])
