"""The ring of a process that runs tells where the process stands, sooner than its files do."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from timing_logger.reading.living import as_it_stands
from timing_logger.record import HOST_CLOCK, INFLIGHT, OK, Record
from timing_logger.recording import core
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.run_info import GroupProgress, boot_id, host_name

pytestmark = pytest.mark.skipif(core.NAME != "native", reason="the Python core has no ring")

STARTED = 1
BARRIER = Record(
    3, 0, "", "BARRIER", "", 0, 1000, None, HOST_CLOCK, "world", 4, 7, None, "MainThread", INFLIGHT
)
GROUPS = [GroupProgress("world", 4, 8, 7), GroupProgress("mesh_dp 1", 2, 3, 3)]


class Process:
    """A process with a ring, which looks where it stands when it is told to."""

    def __init__(self, folder: Path) -> None:
        self._wall_offset_ns = time.time_ns() - perf_counter_ns()
        self.channel: Any = core.Channel(100)
        self.channel.back_by(folder / "a.ring", folder / "timing-rank0.csv", STARTED, self._wall_offset_ns)
        self.sidecar: dict[str, Any] = {
            "closed": False, "ring_path": str(folder / "a.ring"), "started_unix_ns": STARTED,
            "host": host_name(), "boot_id": boot_id(), "updated_unix_ns": time.time_ns(), "open_calls": [],
        }  # fmt: skip

    def look(self, at_ns: int | None = None) -> None:
        now_ns = perf_counter_ns() if at_ns is None else at_ns
        self.channel.note_standing([tuple(BARRIER)], GROUPS, now_ns, 900)

    def told(self) -> Any:
        return as_it_stands(self.sidecar)


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path)


def test_calls_that_are_open_and_how_far_each_group_came_are_told(process: Process) -> None:
    process.look()
    told = process.told()
    assert [(one["operation"], one["seq"], one["start_counter_ns"]) for one in told["open_calls"]] == [
        ("BARRIER", 7, 1000)
    ]
    assert told["groups"] == [group._asdict() for group in GROUPS]
    assert told["last_progress_counter_ns"] == 900
    assert told["updated_unix_ns"] > process.sidecar["updated_unix_ns"]


def test_a_call_that_ended_since_is_not_open(process: Process) -> None:
    process.look()
    process.channel.put(tuple(BARRIER._replace(end_ns=2000, status=OK)))
    assert process.told()["open_calls"] == []


def test_before_the_first_look_the_sidecar_stands(process: Process) -> None:
    assert process.told() is process.sidecar


def test_a_process_that_stopped_looking_gives_no_new_sign_of_life(process: Process) -> None:
    process.look(at_ns=perf_counter_ns() - 10**10)
    assert process.told() is process.sidecar


def test_a_look_in_the_future_is_not_believed(process: Process) -> None:
    process.look(at_ns=perf_counter_ns() + 10**11)
    assert process.told() is process.sidecar


@pytest.mark.parametrize(
    "other",
    [
        {"closed": True}, {"killed": True}, {"host": "elsewhere"}, {"started_unix_ns": 2},
        {"ring_path": ""}, {"ring_path": "/dev/null"}, {"ring_path": "/nowhere/a.ring"},
    ],
)  # fmt: skip
def test_the_sidecar_of_another_process_stands(process: Process, other: dict[str, Any]) -> None:
    process.look()
    process.sidecar |= other
    assert process.told() is process.sidecar


def test_more_than_the_list_holds_is_left_out(process: Process) -> None:
    process.channel.note_standing(
        [tuple(BARRIER._replace(seq=i)) for i in range(200)], GROUPS, perf_counter_ns(), 1
    )
    assert [one["seq"] for one in process.told()["open_calls"]] == list(range(126))
    assert len(process.told()["groups"]) == 2
