"""When the sidecar is written, by which thread, and what becomes of the errors."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from limits import LIMIT_S

from timing_logger.errors import LogPathError
from timing_logger.recording import sidecar_writer
from timing_logger.recording.clock import WallClock
from timing_logger.recording.options import Options
from timing_logger.recording.ring import Backing
from timing_logger.recording.sidecar_writer import Account, SidecarWriter, replace_sidecar
from timing_logger.recording.watchers.hang_watch import Standing
from timing_logger.schema.sidecar import (
    ClockAnchor,
    ClockOffset,
    Counters,
    CrashProtection,
    FilePart,
    HostCountersInfo,
    StackSamplesInfo,
)
from timing_logger.sinks.csv import CsvSink

QUIET = Standing(
    open_calls=[], groups=[], idle_stack=[], last_progress_counter_ns=0, longest_stall=None, last_stall=None,
    signal="", ended_by="", untimed={}, process_group="",
)  # fmt: skip


def account(written: int = 0, dropped: int = 0, last_error: str = "", **standing: Any) -> Account:
    return Account(
        counters=Counters(written + dropped, written, dropped, 0), sinks=[], logger_cpu_ns=0,
        device_clocks=[], last_error=last_error, standing=QUIET._replace(**standing), behind_s=0.0,
    )  # fmt: skip


@pytest.fixture
def clock() -> WallClock:
    return WallClock()


@pytest.fixture
def file(tmp_path: Path, clock: WallClock) -> Iterator[CsvSink]:
    file = CsvSink(tmp_path, 0, started_unix_ns=clock.anchors[0].unix_ns)
    yield file
    file.close()


@pytest.fixture
def now_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the writer, which stands still."""
    now = [1000.0]
    monkeypatch.setattr(sidecar_writer.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread can be started, so what is written is written at once, by the caller."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)


def new(file: CsvSink, clock: WallClock, backing: Backing | None = None) -> SidecarWriter:
    backing = backing or Backing(None, "", CrashProtection(False, "no ring"))
    return SidecarWriter(file, clock, Options.of(0, {}).for_sidecar(), backing)


@pytest.fixture
def writer(file: CsvSink, clock: WallClock, now_s: list[float], no_threads: None) -> SidecarWriter:
    """One that has told that nothing has happened so far, and writes at once."""
    writer = new(file, clock)
    writer.refresh(account())
    return writer


def content(file: CsvSink) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((file.path.parent / "timing-rank0.meta.json").read_text())
    return found


def written(file: CsvSink) -> int:
    """Return how many records the sidecar says that are written."""
    found: int = content(file)["counters"]["written"]
    return found


# -- when it is due --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "news",
    [
        account(written=1),
        account(dropped=1),
        account(untimed={"ALLREDUCE": 1}),
    ],
    ids=["first rows", "first drop", "first untimed call"],
)
def test_the_first_of_each_kind_of_news_is_written_at_once(
    writer: SidecarWriter, file: CsvSink, news: Account
) -> None:
    writer.refresh(news)
    assert content(file)["counters"] == news.counters._asdict()
    before = content(file)["updated_unix_ns"]
    writer.refresh(news)
    assert content(file)["updated_unix_ns"] == before, "it is no news any more"


@pytest.mark.parametrize(
    ("news", "after_s"),
    [
        (account(), 10.0),
        (account(last_error="the disk is full"), 0.1),
        (account(idle_stack=["line"]), 0.1),
        (account(signal="SIGTERM"), 0.1),
    ],
    ids=["a sign of life", "trouble", "a hang", "a signal"],
)
def test_what_may_come_often_waits(
    writer: SidecarWriter, file: CsvSink, now_s: list[float], news: Account, after_s: float
) -> None:
    before = content(file)["updated_unix_ns"]
    for late_s, is_written in ((after_s - 0.01, False), (after_s + 0.01, True)):
        now_s[0] = 1000.0 + late_s
        writer.refresh(news)
        assert (content(file)["updated_unix_ns"] != before) is is_written


def test_a_measured_offset_is_written_at_once(writer: SidecarWriter, file: CsvSink) -> None:
    offset = ClockOffset(1, 2, 3, 0, "host", "boot", 4)
    writer.add_clock_offset(offset)
    writer.refresh(account())
    assert [one["offset_ns"] for one in content(file)["clock_offsets"]] == [offset.offset_ns]


def test_a_further_part_is_written_at_once(writer: SidecarWriter, file: CsvSink) -> None:
    file.append(b"1\n", 1)
    file.path.unlink()
    file.append(b"2\n", 1)
    writer.refresh(account())
    assert [part["file"] for part in content(file)["parts"]] == ["timing-rank0.csv", "timing-rank0.part2.csv"]
    assert content(file)["written_bytes"] == file.written_bytes


@pytest.mark.parametrize("lost", [0, 1])
def test_rows_that_are_found_to_be_gone_are_written_at_once(
    writer: SidecarWriter, file: CsvSink, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    before = content(file)["updated_unix_ns"]
    part = FilePart(file.path.name, 1, 99, lost)
    monkeypatch.setattr(type(file), "parts", [part] * max(1, len(file.parts)))
    writer.refresh(account())
    assert (content(file)["updated_unix_ns"] != before) is bool(lost)


def test_a_step_of_the_wall_clock_is_in_what_is_written_next(
    writer: SidecarWriter, file: CsvSink, clock: WallClock
) -> None:
    clock.anchors.append(ClockAnchor(5, 6, 7))
    writer.refresh(account(written=1))
    assert [one["unix_ns"] for one in content(file)["clock_anchors"]] == [clock.anchors[0].unix_ns, 6]


def test_what_becomes_of_the_files_beside_it_is_told(writer: SidecarWriter, file: CsvSink) -> None:
    writer.host_counters = lambda: HostCountersInfo("host-rank0.csv", 3, 0, 0, [], "")
    writer.stack_samples = lambda: StackSamplesInfo("stacks-rank0.csv", 4, 0, 0, "")
    writer.refresh(account(written=1))
    assert (content(file)["host_counters"]["lines"], content(file)["stack_samples"]["lines"]) == (3, 4)


def test_a_file_whose_names_another_process_took_has_its_sidecar_beside_the_new_one(
    writer: SidecarWriter, file: CsvSink
) -> None:
    first = file.path.with_name("timing-rank0.meta.json")
    first.write_text('{"pid": 1}')
    file.path.unlink()
    file.append(b"1\n", 1)
    writer.refresh(account(written=1))
    moved = json.loads(file.path.with_name("timing-rank0.run2.meta.json").read_text())
    assert (moved["file"], moved["incarnation"]) == ("timing-rank0.run2.csv", 2)
    assert first.read_text() == '{"pid": 1}'


class Channel:
    """One whose file is there, and has no room for names once it ``lacks_names``."""

    lacks_names = False

    def renew_file(self) -> bool:
        return False


def test_the_end_of_crash_protection_is_written_at_once(
    file: CsvSink, clock: WallClock, now_s: list[float], no_threads: None
) -> None:
    channel = Channel()
    writer = new(file, clock, Backing(channel, "/dev/shm/ring", CrashProtection(True, "")))
    writer.refresh(account())
    assert (content(file)["ring_path"], content(file)["crash_protection"]["on"]) == ("/dev/shm/ring", True)
    channel.lacks_names = True
    writer.refresh(account())
    assert content(file)["crash_protection"]["on"] is False


# -- who writes it ---------------------------------------------------------------------------------------


def test_the_end_is_written_by_a_thread_that_is_waited_for(file: CsvSink, clock: WallClock) -> None:
    new(file, clock).close(account(written=3), timeout_s=LIMIT_S)
    assert (written(file), content(file)["closed"]) == (3, True)


def test_how_things_stand_is_told_by_a_thread(file: CsvSink, clock: WallClock) -> None:
    new(file, clock).tell(account(written=3), timeout_s=LIMIT_S)
    assert (written(file), content(file)["closed"]) == (3, False)


def test_where_no_thread_can_be_started_the_end_is_written_by_the_caller(
    file: CsvSink, clock: WallClock, no_threads: None
) -> None:
    new(file, clock).close(account(written=3), timeout_s=0)
    assert (written(file), content(file)["closed"]) == (3, True)


@pytest.mark.parametrize("told_before", [False, True])
def test_where_no_thread_can_be_started_nothing_is_told_as_the_disk_might_not_answer(
    file: CsvSink, clock: WallClock, told_before: bool, request: pytest.FixtureRequest
) -> None:
    writer = new(file, clock)
    if told_before:
        writer.tell(account(), timeout_s=LIMIT_S)
    request.getfixturevalue("no_threads")
    writer.tell(account(written=3), timeout_s=LIMIT_S)
    assert written(file) == 0
    writer.close(account(written=4), timeout_s=LIMIT_S)
    assert written(file) == 4


def test_what_nobody_has_written_so_far_is_written_by_a_refresh_even_if_none_is_due(
    writer: SidecarWriter, file: CsvSink
) -> None:
    writer.tell(account(written=1), timeout_s=0)  # without a thread
    assert written(file) == 0
    writer.refresh(account(written=1))
    assert written(file) == 1


class StalledReplace:
    """A file system that answers no rename before it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked, self.released = threading.Event(), threading.Event()
        self._replace: Callable[..., None] = os.replace
        monkeypatch.setattr(os, "replace", self)

    def __call__(self, *paths: Any) -> None:
        self.asked.set()
        assert self.released.wait(LIMIT_S)
        self._replace(*paths)


def test_a_disk_that_does_not_answer_is_waited_for_as_long_as_told_and_gets_the_newest_alone(
    file: CsvSink, clock: WallClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, disk = new(file, clock), StalledReplace(monkeypatch)
    writer.refresh(account(written=1))
    assert disk.asked.wait(LIMIT_S)
    for call in (writer.close, writer.tell):
        with pytest.raises(TimeoutError, match="not written within 0 s"):
            call(account(written=2), timeout_s=0)
    disk.released.set()
    writer.close(account(written=3), timeout_s=LIMIT_S)
    assert (written(file), content(file)["closed"]) == (3, True)


# -- errors ----------------------------------------------------------------------------------------------


class BrokenReplace:
    """A file system that refuses to rename as long as it ``fails``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fails = True
        self._replace: Callable[..., None] = os.replace
        monkeypatch.setattr(os, "replace", self)

    def __call__(self, *paths: Any) -> None:
        if self.fails:
            raise OSError(5, "Input/output error")
        self._replace(*paths)


def test_an_error_is_raised_once_by_the_next_refresh_a_tenth_of_a_second_later(
    writer: SidecarWriter, file: CsvSink, now_s: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = BrokenReplace(monkeypatch)
    writer.refresh(account(written=1))
    disk.fails = False
    writer.refresh(account(written=2))
    assert written(file) == 0
    now_s[0] += 0.2
    with pytest.raises(OSError, match="Input/output"):
        writer.refresh(account(written=2))
    assert written(file) == 2
    now_s[0] += 20
    writer.refresh(account(written=3))
    assert written(file) == 3


def test_the_error_of_the_last_write_is_raised_by_the_close(
    writer: SidecarWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    BrokenReplace(monkeypatch)
    with pytest.raises(OSError, match="Input/output"):
        writer.close(account(), timeout_s=0)


def test_a_first_sidecar_that_cannot_be_written_is_an_error_of_the_folder(
    file: CsvSink, clock: WallClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    BrokenReplace(monkeypatch)
    with pytest.raises(LogPathError, match=r"^log_dir: '.*meta.json' cannot be written: .*Input/output"):
        new(file, clock)
    assert [path.name for path in file.path.parent.iterdir()] == ["timing-rank0.csv"], "a draft is left"


def test_a_second_run_in_a_folder_says_which_file_it_writes(
    file: CsvSink, clock: WallClock, caplog: pytest.LogCaptureFixture
) -> None:
    new(file, clock)
    assert caplog.text == ""
    second = CsvSink(file.path.parent, 0)
    new(second, clock)
    assert f"rank 0 has files here; this run writes {second.path}" in caplog.text
    second.close()


def test_a_sidecar_is_replaced_as_a_whole_unless_its_name_is_taken_by_then(tmp_path: Path) -> None:
    path = tmp_path / "a.meta.json"
    replace_sidecar(path, "first", 0o600)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("first", 0o600)
    with pytest.raises(FileExistsError, match="is that of another run"):
        replace_sidecar(path, "second", taken=lambda: True)
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_the_draft_that_a_killed_process_left_is_in_nobodys_way(tmp_path: Path) -> None:
    path = tmp_path / "a.meta.json"
    (tmp_path / f"a.meta.json.{os.getpid()}.{threading.get_ident()}.tmp").symlink_to(tmp_path / "trap")
    replace_sidecar(path, "first")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.meta.json"]
