"""A file that only its process writes: what is in it, what others did to it, and what is left of it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from timing_logger.sinks import PartlyWritten
from timing_logger.sinks._append_only_file import AppendOnlyFile


@pytest.fixture
def file(tmp_path: Path) -> Iterator[AppendOnlyFile]:
    """One with a head of two bytes, and two lines."""
    file = AppendOnlyFile(tmp_path / "file", mode=0o644, head=b"h\n")
    file.append(b"one\ntwo\n", 2)
    yield file
    file.close()


def standing(file: AppendOnlyFile) -> tuple[int, int, int, str]:
    return file.records, file.written_bytes, file.lost, file.why


def test_the_head_is_written_once_before_the_first_lines(file: AppendOnlyFile) -> None:
    file.append(b"three\n", 1)
    assert file.path.read_bytes() == b"h\none\ntwo\nthree\n"
    assert standing(file) == (3, 16, 0, "")
    assert file.trouble() == ""


def test_a_name_that_is_taken_is_refused(file: AppendOnlyFile) -> None:
    with pytest.raises(FileExistsError):
        AppendOnlyFile(file.path, mode=0o644, head=b"")


# -- what others did -------------------------------------------------------------------------------------


def replace(path: Path) -> None:
    """Put another file in the place of one, which stays open under another name."""
    path.rename(path.with_name("moved"))
    path.write_bytes(b"h\none\ntwo\n")


HARMS: dict[str, tuple[Callable[[Path], object], int]] = {
    "was deleted": (Path.unlink, 2),
    "was moved away": (lambda path: path.rename(path.with_name("moved")), 2),
    "was replaced": (replace, 2),
    "was cut to 6 bytes": (lambda path: os.truncate(path, 6), 1),
    "was cut to 1 bytes": (lambda path: os.truncate(path, 1), 2),
    "was written to by somebody else": (lambda path: path.open("ab").write(b"x"), 0),
}


@pytest.mark.parametrize("what", HARMS)
def test_what_was_done_to_it_is_told_and_counted_once(file: AppendOnlyFile, what: str) -> None:
    harm, n_lost = HARMS[what]
    harm(file.path)
    assert file.trouble() == what
    assert [file.count_lost("why"), file.count_lost("later")] == [n_lost, 0]
    assert (file.records, file.lost, file.why) == (2 - n_lost, n_lost, "why" if n_lost else "")


@pytest.mark.parametrize("harm", [Path.unlink, replace])
def test_a_file_that_is_gone_has_no_size(file: AppendOnlyFile, harm: Callable[[Path], object]) -> None:
    harm(file.path)
    file.count_lost("why")
    assert file.written_bytes == 0


def test_of_a_file_that_was_cut_the_size_is_what_is_left(file: AppendOnlyFile) -> None:
    os.truncate(file.path, 6)
    file.count_lost("why")
    assert file.written_bytes == 6


def test_what_is_lost_later_is_added(file: AppendOnlyFile) -> None:
    os.truncate(file.path, 6)
    file.count_lost("was cut")
    assert file.give_up("belongs to another process") == 1
    assert standing(file) == (0, 0, 2, "belongs to another process")


def test_what_is_lost_in_steps_is_added(file: AppendOnlyFile) -> None:
    os.truncate(file.path, 6)
    file.count_lost("was cut")
    file.path.unlink()
    assert file.count_lost("was deleted") == 1
    assert standing(file) == (0, 0, 2, "was deleted")


def test_a_file_whose_head_was_changed_holds_no_record_any_more(file: AppendOnlyFile) -> None:
    file.path.write_bytes(b"x\none\n")
    assert file.count_lost("why") == 2


def test_a_closed_descriptor_is_trouble_and_costs_no_record(file: AppendOnlyFile) -> None:
    os.close(file._descriptor)
    assert file.trouble() == "had its descriptor closed"
    assert file.count_lost("why") == 0


def test_another_file_under_the_number_of_a_closed_descriptor_is_left_alone(
    file: AppendOnlyFile, tmp_path: Path
) -> None:
    with (tmp_path / "another").open("wb") as another:
        os.dup2(another.fileno(), file._descriptor)
        number = file._descriptor
        assert file.trouble() == "had its descriptor closed, whose number another file has now"
        file.sync()
        file.close()
        os.close(number)  # which is still open


def fails(number: int) -> Callable[..., os.stat_result]:
    def fail(*_: object, **__: object) -> os.stat_result:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(("number", "n_lost"), [(errno.EIO, 0), (errno.ESTALE, 2)])
def test_a_name_that_cannot_be_looked_up_is_trouble_only_if_its_file_is_gone(
    file: AppendOnlyFile, number: int, n_lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "lstat", fails(number))
    assert file.trouble() == ""
    assert not file.is_at(file.path)
    assert file.count_lost("why") == n_lost
    assert file.written_bytes == (0 if n_lost else 10)


def test_a_descriptor_whose_file_a_server_has_deleted_says_so(
    file: AppendOnlyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", fails(errno.ESTALE))
        assert file.trouble() == "was deleted"
        patch.setattr(os, "fstat", fails(errno.EIO))
        with pytest.raises(OSError, match="Input/output"):
            file.trouble()


def test_where_names_and_descriptors_never_agree_a_name_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.lstat
    (tmp_path / "other").touch()
    with monkeypatch.context() as patch:
        patch.setattr(os, "lstat", lambda path: real(tmp_path / "other"))
        file = AppendOnlyFile(tmp_path / "file", mode=0o644, head=b"")
    file.append(b"one\n", 1)
    replace(file.path)
    assert (file.trouble(), file.count_lost("why")) == ("", 0)
    file.close()


# -- half of a batch -------------------------------------------------------------------------------------


class FullDisk:
    """Takes a number of bytes, then no more, and cannot shorten a file if ``keeps``."""

    def __init__(self, room: int, monkeypatch: pytest.MonkeyPatch, *, keeps: bool = False) -> None:
        self.room, self._write = room, os.write
        monkeypatch.setattr(os, "write", self.write)
        if keeps:
            monkeypatch.setattr(os, "ftruncate", fails(errno.EIO))

    def write(self, descriptor: int, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "full")
        taken = self._write(descriptor, data[: self.room])
        self.room -= taken
        return taken


def test_what_reached_the_file_is_taken_back(file: AppendOnlyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(5, monkeypatch)
    with pytest.raises(OSError, match="full") as raised:
        file.append(b"3\n4\n5\n", 3)
    assert not isinstance(raised.value, PartlyWritten)
    assert standing(file) == (2, 10, 0, "")
    disk.room = 100
    file.append(b"3\n", 1)
    assert file.path.read_bytes() == b"h\none\ntwo\n3\n"


def test_what_cannot_be_taken_back_counts_and_the_rest_is_kept_from_joining_its_end(
    file: AppendOnlyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(5, monkeypatch, keeps=True)
    with pytest.raises(PartlyWritten) as raised:
        file.append(b"3\n4\n5\n", 3)
    assert raised.value.records == 2
    assert standing(file) == (4, 15, 0, "")
    assert file.append_by(lambda *_: (1, 0, False)) == 0
    disk.room = 100
    file.append(b"5\n", 1)
    assert file.path.read_bytes() == b"h\none\ntwo\n3\n4\n5\0\n5\n"
    assert standing(file) == (5, 19, 0, "")
    file.append(b"6\n", 1)
    assert file.path.read_bytes().endswith(b"\n5\n6\n")


def test_a_failure_in_which_nothing_was_written_leaves_the_end_as_torn_as_it_was(
    file: AppendOnlyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(1, monkeypatch, keeps=True)
    for _ in range(2):
        with pytest.raises(OSError, match="full"):
            file.append(b"3\n", 1)
    disk.room = 100
    file.append(b"3\n", 1)
    assert file.path.read_bytes() == b"h\none\ntwo\n3\0\n3\n"


def test_whole_lines_that_cannot_be_taken_back_leave_no_torn_end(
    file: AppendOnlyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(2, monkeypatch, keeps=True)
    with pytest.raises(PartlyWritten):
        file.append(b"3\n4\n", 2)
    disk.room = 100
    file.append(b"4\n", 1)
    assert file.path.read_bytes() == b"h\none\ntwo\n3\n4\n"


def test_lines_of_a_head_are_no_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = AppendOnlyFile(tmp_path / "file", mode=0o644, head=b"head\n")
    FullDisk(7, monkeypatch, keeps=True)
    with pytest.raises(PartlyWritten) as raised:
        file.append(b"1\n2\n", 2)
    assert raised.value.records == 1
    file.close()


@pytest.mark.parametrize(("room", "trouble"), [(4, "could not be begun"), (5, "")])
def test_a_file_that_has_half_a_head_could_not_be_begun(
    tmp_path: Path, room: int, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = AppendOnlyFile(tmp_path / "file", mode=0o644, head=b"head\n")
    FullDisk(room, monkeypatch, keeps=True)
    with pytest.raises(OSError, match="full"):
        file.append(b"1\n", 1)
    assert file.trouble() == trouble
    file.close()


# -- lines that others write into it ---------------------------------------------------------------------


def test_who_appends_is_given_the_file_and_says_what_it_has_then(file: AppendOnlyFile) -> None:
    about = file.path.stat()

    def write(*given: int) -> tuple[int, int, bool]:
        assert given == (file._descriptor, about.st_dev, about.st_ino, 10)
        os.write(given[0], b"3\n4\n")
        return 2, 14, False

    assert file.append_by(write) == 2
    assert standing(file) == (4, 14, 0, "")
    assert file.trouble() == ""


def test_nobody_appends_to_a_file_without_its_head(tmp_path: Path) -> None:
    file = AppendOnlyFile(tmp_path / "file", mode=0o644, head=b"head\n")
    assert file.append_by(lambda *_: (1, 2, False)) == 0
    file.append(b"", 0)
    assert file.append_by(lambda *_: (1, 7, True)) == 1
    assert file.append_by(lambda *_: (1, 9, False)) == 0  # it ends in half a line
    file.close()


# -- its descriptor --------------------------------------------------------------------------------------


def test_a_closed_file_may_be_synced_and_closed_again(file: AppendOnlyFile) -> None:
    number = file._descriptor
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
    file.sync()
    file.close()


def test_syncing_it_syncs_its_descriptor(file: AppendOnlyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    file.sync()
    assert synced == [file._descriptor]


def test_its_descriptor_is_one_of_the_last_64_and_closed_by_programs_that_are_started(
    file: AppendOnlyFile,
) -> None:
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = 4096 if limit < 0 else min(limit, 4096)
    assert highest - 64 <= file._descriptor < highest
    assert not os.get_inheritable(file._descriptor)


def test_where_all_high_numbers_are_taken_it_has_a_low_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcntl.fcntl", fails(errno.EMFILE))
    file = AppendOnlyFile(tmp_path / "file", mode=0o644, head=b"")
    file.append(b"one\n", 1)
    assert (file.trouble(), file.path.read_bytes()) == ("", b"one\n")
    file.close()
