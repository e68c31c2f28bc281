"""Calls of a timed group whose backend queues its work in a device's streams, as NCCL does: nothing scripted.

The device is the tests' own (``async_device``), and so is the backend. A real one is tried in
``tests/gpu/test_process_groups_on_gpu.py``. The rows over groups in C++ are compared with these in
``test_torch_distributed_on_devices.py``.
"""

from __future__ import annotations

from functools import partial

import pytest
from device_runner import on_device

of_nccl2 = pytest.mark.slow("a backend of a torch to come; how it is timed is quick on a scripted device")

two_ranks = partial(on_device, "timed_calls.py", ranks=2)
two_ranks_of_nccl2 = partial(on_device, "timed_nccl2.py", ranks=2)


def test_a_synchronous_call_that_leaves_no_work_is_a_row_of_its_kernel() -> None:
    rows = [["ALLREDUCE", "ok", 0], ["BARRIER", "ok", 1]]
    assert two_ranks("synchronous_calls") == [[None, rows, 1, [100, 0], True]] * 2


def test_calls_that_wait_and_waits_occupy_the_current_stream_and_the_background_none() -> None:
    alone = together = {"ALLREDUCE": "side"}
    assert two_ranks("streams_of_rows") == [[alone, together, {"IALLREDUCE": "", "WAIT": "side"}]] * 2


def test_a_call_in_the_background_and_its_first_wait_are_rows_with_one_number_and_nobody_waits() -> None:
    rows = [["ALLREDUCE", "ok", 0], ["IALLREDUCE", "ok", 1], ["WAIT", "ok", 1]]
    assert two_ranks("background_call") == [[True, False, rows, True]] * 2


def test_an_operation_that_nobody_waited_for_is_unresolved() -> None:
    assert two_ranks("call_that_nobody_waits_for") == [[["IALLREDUCE", "unresolved", None]]] * 2


def test_an_operation_of_which_only_the_future_is_kept_ends_with_it() -> None:
    assert two_ranks("future_alone") == [[["IALLREDUCE", "device", "ok", True]]] * 2


def test_coalesced_operations_end_together_and_one_wait_for_them_is_one_row() -> None:
    rows = [["IBCAST", 0], ["IBCAST", 1], ["IBCAST", 2], ["IALLREDUCE", 3]]
    assert two_ranks("coalesced_calls") == [[rows, 2, True, [4, 2, 2]]] * 2


def test_coalesced_operations_that_the_backend_waits_for_end_when_it_returns() -> None:
    assert two_ranks("coalesced_calls_that_wait") == [[["BCAST", "ok", True]] * 2] * 2


def test_gloo_is_timed_by_the_host_where_there_is_a_device_too() -> None:
    rows = [
        ["ALLREDUCE", "host", "", "MainThread"],
        ["IALLREDUCE", "host", "", "MainThread"],
        ["WAIT", "host", "", "waiter"],
    ]
    assert two_ranks("host_group") == [rows] * 2


def test_a_call_that_is_captured_is_alone_in_its_graph_and_is_counted_and_no_row() -> None:
    assert two_ranks("captured_calls") == [[[1], [], 2]] * 2


# -- a backend that does as nccl2, which torch 2.15 makes for the name nccl ------------------------------


@of_nccl2
def test_a_synchronous_call_of_nccl2_ends_where_it_lies_in_the_stream_though_it_has_a_work() -> None:
    rows = [["ALLREDUCE", "ok", 0, True], ["ALLREDUCE", "ok", 1, True]]
    assert two_ranks_of_nccl2("synchronous_calls") == [[None, True, rows]] * 2


@of_nccl2
def test_to_ask_nccl2_for_a_future_is_the_wait_and_the_only_one() -> None:
    rows = [["IALLREDUCE", "ok", 0, True], ["WAIT", "ok", 0, True]]
    assert two_ranks_of_nccl2("future") == [[True, rows]] * 2


@of_nccl2
def test_timing_asks_nccl2_for_no_future_in_a_backward_pass_as_the_stream_would_wait() -> None:
    (first, second) = two_ranks_of_nccl2("call_in_a_backward_pass")
    assert [row[:3] for row in first] == [["IALLREDUCE", "ok", 0], ["WAIT", "ok", 0]]
    assert [row[:3] for row in second] == [row[:3] for row in first]


@of_nccl2
def test_ddps_buckets_over_nccl2_are_waited_for_where_the_reducer_asks_for_their_futures() -> None:
    told = {
        "several, with names": True,
        "statuses": ["ok"],
        "one wait for each": True,
        "lasted": True,
        "blocked": True,
        "in the stream of backward": True,
    }
    assert two_ranks_of_nccl2("ddp") == [told] * 2


@of_nccl2
def test_the_durations_that_works_of_nccl2_tell_are_rows_once_the_works_are_complete() -> None:
    last = [
        [1, "device", {"of": "ALLREDUCE", "by": "nccl"}, True],
        [2, "device", {"of": "IALLREDUCE", "by": "nccl"}, True],
    ]
    assert two_ranks_of_nccl2("durations") == [[[0], last]] * 2
