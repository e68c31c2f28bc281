"""Calls that a backend queues in the streams of a device: C++ times them, and the rows are as Python's.

The device is the tests' own (``async_device``).
"""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import Any

import group_in_cpp
import pytest
from device_runner import on_device
from packaging.version import Version

from timing_logger.recording.device.devices import MOST_INTERVALS
from timing_logger.recording.device.intervals import AT_ONCE

REASON = "calls on a device are quick over both kinds of groups in test_rows_on_async_device.py"
new_torch = pytest.mark.skipif(
    Version(version("torch")) < Version("2.12"), reason="Python times devices there"
)
pytestmark = [pytest.mark.slow(REASON), group_in_cpp.needed, new_torch]

in_cpp = partial(on_device, "calls_by_groups.py", ranks=2, group="native")
in_python = partial(on_device, "calls_by_groups.py", ranks=2, group="python")


def both(scenario: str) -> list[Any]:
    """Return what a scenario returned on each rank, which is the same over both kinds of groups."""
    found = in_cpp(scenario)
    assert found == in_python(scenario)
    return found


def test_the_handles_are_those_of_cpp() -> None:
    assert in_cpp("handles") == [["timing_group"]] * 2


def test_each_call_has_the_same_rows_whichever_times_it() -> None:
    assert [len(rows) for rows in both("each_call")] == [18] * 2


def test_odd_calls_raise_the_same_and_have_the_same_rows_whichever_times_them() -> None:
    assert [len(rows) > 8 for _, rows in both("odd_calls")] == [True] * 2


def test_a_full_stream_gets_no_more_marks() -> None:
    """Those that were made ahead and not used count as well, so there are a few less than Python's."""
    for of_rank in in_cpp("calls_before_a_stream_that_stands_still"):
        assert MOST_INTERVALS - AT_ONCE <= of_rank["ok"] <= MOST_INTERVALS
        assert of_rank == {"ok": of_rank["ok"], "unresolved": 260 - of_rank["ok"]}


def test_rows_that_find_no_room_are_counted_and_their_events_are_used_again() -> None:
    assert both("more_calls_than_the_ring_has_room_for") == [[[300, 64, 236], True]] * 2


def test_threads_that_call_at_once_lose_no_row() -> None:
    kinds = ["ALLREDUCE", "IALLREDUCE", "WAIT"]
    rows = sorted([kind, "ok", f"caller {number}", 40] for kind in kinds for number in range(4))
    assert both("many_threads") == [[rows, True]] * 2


@pytest.mark.parametrize("way", ["ddp", "fsdp2"])
def test_training_has_the_same_rows_whichever_times_it(way: str) -> None:
    assert [len(rows) > 12 for rows in both(way)] == [True] * 2


def test_on_a_device_that_failed_calls_raise_the_same_and_their_rows_have_no_end() -> None:
    rows = [["ALLREDUCE", "error:RuntimeError", None], ["IALLREDUCE", "error:RuntimeError", None]]
    assert both("failure") == [[["RuntimeError"] * 2, rows]] * 2
