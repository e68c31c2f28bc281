"""Where the file behind a channel is made, how large it is, and what is said where there is none."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from timing_logger.errors import LogPathError
from timing_logger.recording import ring
from timing_logger.recording.clock import WallClock
from timing_logger.recording.cores.channel import Channel
from timing_logger.recording.ring import Backing, back, check_is_in_memory
from timing_logger.schema.sidecar import CrashProtection

MB = 10**6


class BackedChannel:
    """One that says by what it is backed."""

    def __init__(self, capacity: int = 100_000) -> None:
        self.capacity = capacity
        self.backed_by: list[tuple[Any, ...]] = []
        self.trouble: OSError | None = None

    def back_by(self, path: Path, timing_file: Path, *about: Any) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.backed_by.append((path, timing_file, *about))
        self.capacity = about[-1] or self.capacity


@pytest.fixture(autouse=True)
def in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's folder is the only one, counts as memory, and has much room; nothing was said so far."""
    monkeypatch.setattr(ring, "_folders", lambda: [tmp_path])
    monkeypatch.setattr(ring, "check_is_in_memory", lambda folder: None)
    monkeypatch.setattr(ring, "_said", set())
    has_free(monkeypatch, 10**12)


def has_free(monkeypatch: pytest.MonkeyPatch, n_bytes: int) -> None:
    monkeypatch.setattr(os, "statvfs", lambda folder: SimpleNamespace(f_bavail=n_bytes // 100, f_frsize=100))


def made(channel: Any, folder: Path | None = None) -> Backing:
    return back(channel, folder, Path("timing-rank0.csv"), WallClock(), 1.0)


# -- where -----------------------------------------------------------------------------------------------


def test_the_file_says_whose_it_is_and_where_its_records_go(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    channel, clock = BackedChannel(), WallClock()
    backing = back(channel, None, Path("timing-rank0.csv"), clock, 1.0)  # type: ignore[arg-type]
    ((path, timing_file, unix_ns, offset_ns, capacity),) = channel.backed_by
    assert path.parent == tmp_path
    assert path.name.startswith(f"timing-logger-{os.getuid()}-{os.getpid()}-")
    assert path.suffix == ".ring"
    assert timing_file == Path.cwd() / "timing-rank0.csv"
    assert (unix_ns, offset_ns) == (clock.anchors[0].unix_ns, clock.anchors[0].wall_offset_ns)
    assert capacity == 100_000
    assert (backing.path, backing.protection) == (str(path), CrashProtection(True, ""))
    assert caplog.messages == []


def test_a_folder_that_was_asked_for_has_the_whole_queue_whatever_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_free(monkeypatch, 0)
    channel = BackedChannel()
    assert made(channel, tmp_path).protection == CrashProtection(True, "")
    assert channel.backed_by[0][-1] is None


def test_a_folder_that_was_asked_for_and_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    channel = BackedChannel()
    channel.trouble = OSError(28, "No space left on device")
    with pytest.raises(LogPathError, match=r"^ring_dir: '.*' cannot hold a ring: .*No space left"):
        made(channel, tmp_path)
    with pytest.raises(LogPathError, match=r"^ring_dir='.*' cannot be used: the Python core has none\."):
        made(Channel(8), tmp_path)
    with pytest.raises(LogPathError, match=r"maxsize=1048577, and a ring holds at most 1048576 records"):
        made(BackedChannel(2**20 + 1), tmp_path)
    assert made(BackedChannel(2**20), tmp_path).protection.on


def test_left_rings_are_removed_from_a_folder_before_one_is_made_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared: list[Path] = []
    monkeypatch.setattr(ring, "remove_left_rings", cleared.append)
    made(BackedChannel(), tmp_path)
    made(BackedChannel())
    assert cleared == [tmp_path, tmp_path]


def test_the_next_folder_is_tried_where_one_is_of_no_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(folder: Path) -> None:
        if folder.name == "disk":
            raise OSError(errno.ENOTSUP, "it is on a disk")

    monkeypatch.setattr(ring, "_folders", lambda: [tmp_path / "disk", tmp_path])
    monkeypatch.setattr(ring, "check_is_in_memory", check)
    assert Path(made(BackedChannel()).path).parent == tmp_path


def test_without_any_folder_it_says_once_what_would_be_lost_and_what_would_help(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> None:
        raise OSError(errno.ENOTSUP, f"it is not {folder.name}")

    monkeypatch.setattr(ring, "_folders", lambda: [Path("/a"), Path("/b")])
    monkeypatch.setattr(ring, "check_is_in_memory", refuse)
    backing = made(BackedChannel())
    made(BackedChannel())
    assert backing.path == ""
    assert backing.protection == CrashProtection(False, "'/a': it is not a; '/b': it is not b")
    assert caplog.messages == [
        "timing logger: no crash protection ('/a': it is not a; '/b': it is not b): what is recorded in the "
        "last 1.5 s before a kill would be lost; ring_dir names another folder for it"
    ]


def test_the_python_core_has_none_and_no_folder_would_help(caplog: pytest.LogCaptureFixture) -> None:
    backing = made(Channel(8))
    assert (backing.path, backing.protection) == ("", CrashProtection(False, "the Python core has none"))
    (said,) = caplog.messages
    assert said.endswith("in the last 1.5 s before a kill would be lost")


def test_memory_is_looked_for_in_the_usual_place_and_in_the_temporary_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    for temporary, folders in (
        ("/x", ["/dev/shm", "/x"]),
        ("", ["/dev/shm", "/tmp"]),
        ("/dev/shm", ["/dev/shm"]),
    ):
        monkeypatch.setenv("TMPDIR", temporary)
        assert ring._folders() == list(map(Path, folders))


# -- how large -------------------------------------------------------------------------------------------

USUAL_BYTES = 100_000 * 128 + 2_300_000
LEAST_BYTES = 16_384 * 128 + 2_300_000


@pytest.mark.parametrize(
    ("free_bytes", "asked", "records"),
    [
        (8 * USUAL_BYTES, 100_000, 100_000),
        (8 * USUAL_BYTES - 100, 100_000, 99_999),
        (8 * (LEAST_BYTES + 128), 100_000, 16_385),
        (5 * LEAST_BYTES, 100_000, 16_384),
        (4 * LEAST_BYTES, 100_000, 16_384),
        (8 * 2_300_000 + 100, 10, 10),
    ],
)
def test_it_takes_an_eighth_of_what_is_free_and_the_least_one_a_quarter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_bytes: int, asked: int, records: int
) -> None:
    has_free(monkeypatch, -(-free_bytes // 100) * 100)
    assert ring._most_records(tmp_path, asked) == records


@pytest.mark.parametrize(
    ("free_bytes", "asked", "needed"),
    [
        (4 * LEAST_BYTES - 100, 100_000, "4.4 MB"),
        (8 * USUAL_BYTES, 100_001, "15.1 MB"),
        (8 * 2_300_000, 10, None),
        (4 * 2_300_000, 10, "2.3 MB"),
    ],
)
def test_where_there_is_no_room_for_the_least_or_for_a_long_queue_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_bytes: int, asked: int, needed: str | None
) -> None:
    has_free(monkeypatch, free_bytes)
    if needed is None:
        assert ring._most_records(tmp_path, asked) == asked
        return
    with pytest.raises(
        OSError, match=rf"^\[Errno 28\] [\d.]+ MB are free, too few beside a ring of {needed}$"
    ):
        ring._most_records(tmp_path, asked)


def test_a_shorter_queue_is_told_with_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_free(monkeypatch, 5 * LEAST_BYTES)
    backing = made(BackedChannel())
    said = (
        f"the queue holds 16384 records and not maxsize=100000, as there is no room in {str(tmp_path)!r} "
        "for more of them to survive a kill"
    )
    assert backing.protection == CrashProtection(True, said)
    assert caplog.messages == [f"timing logger: {said}"]


# -- what is memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mounts", "refused"),
    [
        ("{} tmpfs", None),
        ("0:0 ext4\n{} ramfs", None),
        ("{} ext4", "it is not in memory but on ext4"),
        ("0:0 tmpfs", "its file system is not known"),
    ],
)
def test_only_a_folder_in_memory_is_taken_as_a_disk_may_have_to_be_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounts: str, refused: str | None
) -> None:
    device = os.stat(tmp_path).st_dev
    table = tmp_path / "mountinfo"
    lines = mounts.format(f"{os.major(device)}:{os.minor(device)}").splitlines()
    parted = [line.split() for line in lines]
    table.write_text("".join(f"1 2 {number} / /mnt rw - {kind} none rw\n" for number, kind in parted))
    monkeypatch.setattr(ring, "Path", lambda path: table)
    if refused is None:
        check_is_in_memory(tmp_path)
    else:
        with pytest.raises(OSError, match=refused):
            check_is_in_memory(tmp_path)


# -- what becomes of it ----------------------------------------------------------------------------------


class Renewed:
    """A channel whose file is new, there, or cannot be made again."""

    lacks_names = False

    def __init__(self, *found: bool | OSError) -> None:
        self._found = iter(found)

    def renew_file(self) -> bool:
        found = next(self._found)
        if isinstance(found, OSError):
            raise found
        return found


PROTECTED = CrashProtection(True, "a shorter queue")


def test_a_file_that_was_removed_is_replaced_and_its_protection_is_as_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    backing = Backing(Renewed(False, OSError(28, "No space left"), True, False), "/dev/shm/a", PROTECTED)
    backing.look_after()
    assert (backing.protection, caplog.messages) == (PROTECTED, [])
    backing.look_after()
    lost = "'/dev/shm/a' was removed, and no new one can be made: No space left"
    assert backing.protection == CrashProtection(False, lost)
    backing.look_after()
    backing.look_after()
    assert backing.protection == PROTECTED
    assert caplog.messages == [
        f"timing logger: the ring {lost}: what is recorded just before a kill would be lost",
        "timing logger: the ring '/dev/shm/a' was removed: a new one is in its place",
    ]


def test_protection_ends_where_there_is_no_room_for_another_name(caplog: pytest.LogCaptureFixture) -> None:
    channel = Renewed(False, False)
    channel.lacks_names = True
    backing = Backing(channel, "/dev/shm/a", PROTECTED)
    backing.look_after()
    backing.look_after()
    assert not backing.protection.on
    assert "16,384 different ones, of 1 MiB in all" in backing.protection.reason
    (said,) = caplog.messages
    assert said == f"timing logger: crash protection ends here: {backing.protection.reason}"


def test_where_there_is_no_file_none_is_looked_after() -> None:
    backing = Backing(None, "", CrashProtection(False, "none"))
    backing.look_after()
    assert backing.protection == CrashProtection(False, "none")
