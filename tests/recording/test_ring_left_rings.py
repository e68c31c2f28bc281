"""Which rings that killed processes left are removed: made by hand, without a record in them."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import threading
from pathlib import Path
from typing import Any

import pytest
from limits import LIMIT_S
from sidecars import states

from timing_logger.recording import ring as left_rings
from timing_logger.recording.ring import remove_left_rings
from timing_logger.schema import ring_file
from timing_logger.schema.record import LAYOUT
from timing_logger.schema.ring_file import MAGIC, SLOT_BYTES, RingHeader
from timing_logger.schema.timing_files import sidecar_path

HEADER_BYTES, SLOTS = 4096, 4
PID, STARTED_NS = 77, 1_000


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for until all are looked at."""
    monkeypatch.setattr(left_rings, "_MOST_SECONDS", LIMIT_S)


@pytest.fixture
def timing_file(tmp_path: Path) -> Path:
    """That of the killed process, with all that its ring tells."""
    (tmp_path / "logs").mkdir()
    timing_file = tmp_path / "logs" / "timing-rank0.csv"
    timing_file.write_text("")
    return states(timing_file, pid=PID, started_unix_ns=STARTED_NS)


def ring(folder: Path, timing_file: Path, *, name: str = "1", uid: int | None = None, **fields: Any) -> Path:
    """A ring of which every record is written; a header of other ``fields`` says otherwise."""
    header = RingHeader(
        magic=MAGIC, header_bytes=HEADER_BYTES, names_bytes=0, standing_bytes=0, open_bytes=0,
        slot_bytes=SLOT_BYTES, layout=LAYOUT, slots=SLOTS, started_unix_ns=STARTED_NS, wall_offset_ns=0,
        pid=PID, head=0, taken=0, released=0, standing=0, looked_ns=0, progressed_ns=0,
        path=os.fsencode(timing_file),
    )._replace(**fields)  # fmt: skip
    path = folder / f"timing-logger-{os.getuid() if uid is None else uid}-{name}.ring"
    content = ring_file._HEADER.pack(*header).ljust(HEADER_BYTES, b"\0")
    path.write_bytes(content + bytes(SLOTS * SLOT_BYTES))
    path.chmod(0o600)
    return path


def test_one_whose_files_tell_all_is_removed_and_they_say_that_its_process_was_killed(
    tmp_path: Path, timing_file: Path
) -> None:
    left = ring(tmp_path, timing_file)
    remove_left_rings(tmp_path)
    assert not left.exists()
    assert json.loads(sidecar_path(timing_file).read_text())["killed"] is True


def test_files_that_say_so_already_stay_as_they_are(tmp_path: Path, timing_file: Path) -> None:
    states(timing_file, pid=PID, started_unix_ns=STARTED_NS, killed=True)
    before = sidecar_path(timing_file).read_bytes()
    left = ring(tmp_path, timing_file)
    remove_left_rings(tmp_path)
    assert not left.exists()
    assert sidecar_path(timing_file).read_bytes() == before


def test_one_whose_files_are_gone_is_removed(tmp_path: Path) -> None:
    left = ring(tmp_path, tmp_path / "timing-rank0.csv")
    remove_left_rings(tmp_path)
    assert not left.exists()


def test_one_whose_sidecar_alone_is_left_stays(tmp_path: Path, timing_file: Path) -> None:
    timing_file.unlink()
    left = ring(tmp_path, timing_file)
    remove_left_rings(tmp_path)
    assert left.exists()


def test_one_whose_sidecar_is_gone_stays(tmp_path: Path, timing_file: Path) -> None:
    sidecar_path(timing_file).unlink()
    left = ring(tmp_path, timing_file)
    remove_left_rings(tmp_path)
    assert left.exists()


def test_one_whose_process_lives_stays(tmp_path: Path) -> None:
    left = ring(tmp_path, tmp_path / "timing-rank0.csv")
    with left.open("rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        remove_left_rings(tmp_path)
    assert left.exists()


def test_one_with_records_that_were_not_written_stays(tmp_path: Path, timing_file: Path) -> None:
    left = ring(tmp_path, timing_file, head=1)
    remove_left_rings(tmp_path)
    assert left.exists()


def test_so_does_one_with_a_record_that_its_header_does_not_count_yet(
    tmp_path: Path, timing_file: Path
) -> None:
    left = ring(tmp_path, timing_file)
    with left.open("r+b") as file:
        file.seek(HEADER_BYTES)
        file.write(struct.pack("=Q", 1))
    remove_left_rings(tmp_path)
    assert left.exists()


@pytest.mark.parametrize("fields", [{"pid": PID + 1}, {"started_unix_ns": STARTED_NS + 1}])
def test_one_of_another_run_with_the_same_file_stays(
    tmp_path: Path, timing_file: Path, fields: dict[str, Any]
) -> None:
    left = ring(tmp_path, timing_file, **fields)
    remove_left_rings(tmp_path)
    assert left.exists()


def test_what_is_no_ring_stays_and_keeps_no_other_one(tmp_path: Path) -> None:
    gone = tmp_path / "timing-rank0.csv"
    odd = [ring(tmp_path, gone, name=name, magic=1) for name in ("0", "2")]
    left = ring(tmp_path, gone, name="1")
    remove_left_rings(tmp_path)
    assert not left.exists()
    assert all(path.exists() for path in odd)


def test_that_of_another_user_is_not_even_looked_at(tmp_path: Path) -> None:
    left = ring(tmp_path, tmp_path / "timing-rank0.csv", uid=os.getuid() + 1)
    remove_left_rings(tmp_path)
    assert left.exists()


def test_whoever_comes_while_it_goes_on_leaves_it_to_that(tmp_path: Path) -> None:
    left = ring(tmp_path, tmp_path / "timing-rank0.csv")
    with left_rings._running:
        remove_left_rings(tmp_path)
    assert left.exists()
    remove_left_rings(tmp_path)
    assert not left.exists()


def test_where_no_thread_can_be_had_the_next_logger_removes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    left = ring(tmp_path, tmp_path / "timing-rank0.csv")
    with monkeypatch.context() as without:
        without.setattr(threading.Thread, "start", refuse)
        remove_left_rings(tmp_path)
    assert left.exists()
    remove_left_rings(tmp_path)
    assert not left.exists()


def test_after_its_time_the_others_are_left_to_the_next_logger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [ring(tmp_path, tmp_path / "timing-rank0.csv", name=str(name)) for name in range(3)]
    monkeypatch.setattr(left_rings, "_MOST_SECONDS", -1.0)
    left_rings._running.acquire()
    left_rings._remove(tmp_path)
    assert sum(path.exists() for path in left) == 2
    assert not left_rings._running.locked()
