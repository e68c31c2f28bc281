"""The ring of a process that runs tells where the process stands, sooner than its files do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conditions import wait_for

from timing_logger import TimingLogger, read_timings
from timing_logger.analysis import hang
from timing_logger.process.this_process import boot_id, host_name
from timing_logger.reading.living import as_it_stands
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.cores import chosen as core
from timing_logger.schema.record import HOST_CLOCK, INFLIGHT, OK, Record
from timing_logger.schema.ring_file import Ring, read_ring
from timing_logger.schema.sidecar import GroupProgress
from timing_logger.schema.timing_files import sidecar_path

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
        self.file = folder / "timing-rank0.csv"
        sidecar_path(self.file).write_text("{}")
        self.channel: Any = core.Channel(100)
        self.channel.back_by(folder / "a.ring", self.file, STARTED, self._wall_offset_ns)
        self.sidecar: dict[str, Any] = {
            "closed": False, "ring_path": str(folder / "a.ring"), "started_unix_ns": STARTED,
            "pid": os.getpid(),
            "host": host_name(), "boot_id": boot_id(), "updated_unix_ns": time.time_ns(), "open_calls": [],
        }  # fmt: skip

    def look(self, at_ns: int | None = None) -> None:
        now_ns = perf_counter_ns() if at_ns is None else at_ns
        self.channel.note_standing([tuple(BARRIER)], GROUPS, now_ns, 900)

    def told(self) -> Any:
        return as_it_stands(self.sidecar, self.file)


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


def test_before_the_first_look_nothing_is_known_of_groups_and_progress(process: Process) -> None:
    assert process.told() == process.sidecar


def test_a_process_that_stopped_looking_gives_no_new_sign_of_life(process: Process) -> None:
    process.look(at_ns=perf_counter_ns() - 10**10)
    assert process.told()["updated_unix_ns"] == process.sidecar["updated_unix_ns"]


def test_a_look_in_the_future_is_not_believed(process: Process) -> None:
    process.look(at_ns=perf_counter_ns() + 10**11)
    assert process.told() is process.sidecar


@pytest.mark.parametrize(
    "other",
    [
        {"closed": True}, {"killed": True}, {"host": "elsewhere"}, {"started_unix_ns": 2}, {"pid": 1},
        {"ring_path": ""}, {"ring_path": "/dev/null"}, {"ring_path": "/nowhere/a.ring"},
    ],
)  # fmt: skip
def test_the_sidecar_of_another_process_stands(process: Process, other: dict[str, Any]) -> None:
    process.look()
    process.sidecar |= other
    assert process.told() is process.sidecar


def test_more_than_the_list_holds_is_left_out(process: Process) -> None:
    process.channel.note_standing(
        [tuple(BARRIER._replace(seq=i, start_ns=1000 + i)) for i in range(200)], GROUPS, perf_counter_ns(), 1
    )
    assert [one["seq"] for one in process.told()["open_calls"]] == list(range(126))
    assert len(process.told()["groups"]) == 2


# -- calls of the instrumentation, which are told from their very beginning ------------------------------


class Group:
    name, size = "world", 4

    def __init__(self) -> None:
        self.counts = core.CollectiveCount()
        self.next_collective, self.take_back = self.counts.next_collective, self.counts.take_back


class Work:
    def wait(self) -> None: ...

    def is_completed(self) -> bool:
        return True


@pytest.fixture
def logger(tmp_path: Path) -> Iterator[TimingLogger]:
    with TimingLogger(0, tmp_path / "logs", ring_dir=tmp_path, flush_interval=3600) as made:
        made.set_current_iteration(3)
        yield made


def ring_in(folder: Path) -> Ring:
    (path,) = folder.glob("*.ring")
    with path.open("rb") as file:
        return read_ring(file.fileno())


def open_calls(folder: Path) -> list[Any]:
    """Return what the ring in ``folder`` lists now as open: operation, sequence number, status and end."""
    calls = map(Record._make, ring_in(folder).open_calls)
    return [(call.operation, call.seq, call.status, call.end_ns) for call in calls]


def wait_for_a_look(folder: Path) -> None:
    before_ns = ring_in(folder).looked_ns
    wait_for(lambda: ring_in(folder).looked_ns != before_ns)


def assert_none_is_open(folder: Path) -> None:
    """Wait for the next look if there was one meanwhile: it notes for itself what is open."""
    wait_for(lambda: not open_calls(folder), lambda: f"the end of {open_calls(folder)}")


@pytest.mark.parametrize("every", [1, 2])
def test_a_call_is_told_at_once_and_only_as_long_as_it_lasts(tmp_path: Path, every: int) -> None:
    inside = []
    with TimingLogger(
        0, tmp_path / "logs", ring_dir=tmp_path, flush_interval=3600, record_every_n_steps=every
    ) as logger:
        logger.set_current_iteration(3)  # recorded, or left out by sampling
        for _ in range(2):
            logger.time_call(
                "BARRIER", 0, None, None, Group(), Work, lambda: inside.append(open_calls(tmp_path)), ()
            )
        assert inside == [[("BARRIER", 0, INFLIGHT, None)]] * 2
        assert_none_is_open(tmp_path)


def test_a_call_that_ended_is_told_no_more_though_a_look_came_while_it_lasted(
    logger: TimingLogger, tmp_path: Path
) -> None:
    wait = partial(wait_for_a_look, tmp_path)
    logger.time_call("BARRIER", 0, None, None, Group(), Work, wait, ())
    assert open_calls(tmp_path) == []  # before the next look, a quarter of a second later


def test_a_call_that_raises_is_told_no_more(logger: TimingLogger, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        logger.time_call("BARRIER", 0, None, None, Group(), Work, lambda: 1 / 0, ())
    assert_none_is_open(tmp_path)


def test_an_operation_in_the_background_is_told_until_its_end_is_seen(
    logger: TimingLogger, tmp_path: Path
) -> None:
    operation, _ = logger.issue_call(
        core.BackgroundSpan, "IALLREDUCE", 8, None, None, Group(), True, True, Work, ()
    )
    assert open_calls(tmp_path) == [("IALLREDUCE", 0, INFLIGHT, None)]
    operation.end(None)
    assert_none_is_open(tmp_path)


def test_more_calls_than_the_list_holds_are_timed_all_the_same(logger: TimingLogger, tmp_path: Path) -> None:
    group, begun = Group(), []
    for _ in range(100):
        begun.append(
            logger.issue_call(core.BackgroundSpan, "IALLREDUCE", 8, None, None, group, True, True, Work, ())
        )
    assert len(open_calls(tmp_path)) >= 64
    for operation, _ in begun:
        operation.end(None)
    assert logger.flush()
    assert logger.stats.written == 100
    assert_none_is_open(tmp_path)


def test_operations_in_the_background_leave_the_list_room_for_a_call(
    logger: TimingLogger, tmp_path: Path
) -> None:
    group, seen = Group(), []
    begun = [
        logger.issue_call(core.BackgroundSpan, "IALLREDUCE", 8, None, None, group, True, True, Work, ())
        for _ in range(200)
    ]
    look = lambda: seen.extend(open_calls(tmp_path))  # noqa: E731
    logger.time_call("BARRIER", 0, None, None, group, Work, look, ())
    assert "BARRIER" in [operation for operation, *_ in seen]
    assert len(begun) == 200


HOLDS_THE_LOCK = """
import ctypes, sys
from timing_logger import TimingLogger
from timing_logger.recording.cores import chosen as core
class Group:
    name, size = "world", 4
    def __init__(self):
        counts = self.counts = core.CollectiveCount()
        self.next_collective, self.take_back = counts.next_collective, counts.take_back
class Work: pass
logger = TimingLogger(0, sys.argv[1], ring_dir=sys.argv[2])
logger.set_current_iteration(3)
logger.flush()
sleep_with_the_lock = ctypes.PyDLL(None).sleep
logger.time_call("BARRIER", 0, None, None, Group(), Work, sleep_with_the_lock, (3600,))
"""


def test_a_call_that_holds_the_interpreters_lock_is_told_though_no_thread_of_ours_can_run(
    tmp_path: Path,
) -> None:
    logs = tmp_path / "logs"
    process = subprocess.Popen([sys.executable, "-c", HOLDS_THE_LOCK, logs, tmp_path])
    try:
        wait_for(lambda: list(logs.glob("*.meta.json")) and open_calls(tmp_path), by=process)
        (group,) = hang(read_timings(logs), now_unix_s=time.time()).younger
        assert (group.operation, group.seq, group.inside) == ("BARRIER", 0, (0,))
    finally:
        process.kill()
        process.wait()
    with pytest.warns(UserWarning, match="1 row added that its process had not written"):
        rows = read_timings(logs)
    assert rows[["operation", "seq", "status"]].to_numpy().tolist() == [["BARRIER", 0, INFLIGHT]]
