"""A file goes on in a next part once it has its size, and no sooner, and where others have changed it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from timing_logger.errors import LogPathError
from timing_logger.schema.sidecar import FilePart
from timing_logger.sinks._file_in_parts import FileInParts, is_taken


def new(folder: Path, max_bytes: int | None = None, **options: Any) -> FileInParts:
    return FileInParts(
        folder, lambda incarnation, part: f"{incarnation}-{part}", argument="folder", taken=is_taken,
        max_bytes=max_bytes, **options,
    )  # fmt: skip


def refuses(*_: object) -> int:
    raise OSError(30, "Read-only file system")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def parts(folder: Path, max_bytes: int, *writes: bytes) -> list[bytes]:
    """Return what is in each part of a file after these writes."""
    file = new(folder, max_bytes)
    for data in writes:
        file.append(data, 1)
    file.close()
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def test_a_file_that_has_its_size_is_followed_by_the_next(tmp_path: Path) -> None:
    assert parts(tmp_path, 5, b"one,\n", b"two,\n", b"3\n") == [b"one,\n", b"two,\n", b"3\n"]


def test_a_file_that_lacks_a_byte_takes_one_more_write_as_a_whole(tmp_path: Path) -> None:
    assert parts(tmp_path, 6, b"one,\n", b"two,\n", b"3\n") == [b"one,\ntwo,\n", b"3\n"]


def test_all_parts_and_their_sizes_are_told(tmp_path: Path) -> None:
    file = new(tmp_path, 4)
    file.append(b"one\n", 1)
    file.append(b"2\n3\n", 2)
    assert file.parts == [FilePart("1-1", 1, 4), FilePart("1-2", 2, 4)]
    assert file.written_bytes == 8
    assert file.path == tmp_path / "1-1"
    file.close()


def test_a_file_in_whose_way_is_the_part_of_another_leaves_that_out(tmp_path: Path) -> None:
    file = new(tmp_path, 4)
    (tmp_path / "1-2").write_bytes(b"theirs")
    file.append(b"one\n", 1)
    file.append(b"two\n", 1)
    file.close()
    assert contents(tmp_path) == {"1-1": b"one\n", "1-2": b"theirs", "1-3": b"two\n"}


def test_only_a_file_without_a_limit_lets_others_append(tmp_path: Path) -> None:
    for max_bytes, written in ((10**6, 0), (None, 1)):
        file = new(tmp_path, max_bytes)
        file.append(b"one\n", 1)
        assert file.append_by(lambda *_: (1, 4, False)) == written
        file.close()


def test_earlier_parts_are_synced_until_they_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = new(tmp_path, 4)
    for data in (b"one\n", b"two\n"):
        file.append(data, 1)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    file.sync()
    assert len(synced) == 2
    assert file.look_after() == []
    file.sync()
    assert len(synced) == 3
    file.close()


def test_closing_it_closes_all_parts(tmp_path: Path) -> None:
    file = new(tmp_path, 4)
    for data in (b"one\n", b"two\n"):
        file.append(data, 1)
    descriptors = [part._descriptor for part in (*file._unclosed, file._current) if part]
    assert len(descriptors) == 2
    file.close()
    for descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_a_part_that_cannot_be_made_is_tried_again_under_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = new(tmp_path, 4)
    file.append(b"one\n", 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuses)
        for _ in range(2):
            with pytest.raises(OSError, match="Read-only"):
                file.append(b"two\n", 1)
    file.append(b"two\n", 1)
    file.close()
    assert contents(tmp_path) == {"1-1": b"one\n", "1-2": b"two\n"}


def test_the_next_part_makes_the_folder_again_if_it_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "folder"
    file = new(folder)
    file.append(b"one\n", 1)
    folder.parent.rename(tmp_path / "moved")
    file.append(b"two\n", 1)
    file.close()
    assert contents(folder) == {"1-2": b"two\n"}


# -- changes from outside --------------------------------------------------------------------------------


def test_when_one_part_is_deleted_the_lost_rows_of_all_are_counted_and_told_once(tmp_path: Path) -> None:
    file = new(tmp_path, 4)
    file.append(b"one\n", 1)
    file.append(b"2\n3", 2)
    for name in ("1-1", "1-2"):
        (tmp_path / name).unlink()
    lost = "3 rows that had been written are in no file of this process any more"
    assert file.look_after() == [f"1-2 was deleted: {lost}; the next go into a new file"]
    assert (file.lost, file.look_after()) == (3, [])
    assert file.parts == [
        FilePart("1-1", 0, 0, 1, "was deleted, moved away or cut"), FilePart("1-2", 0, 0, 2, "was deleted")
    ]  # fmt: skip
    file.append(b"4\n", 1)
    file.close()
    assert contents(tmp_path) == {"1-3": b"4\n"}


def test_a_change_that_costs_no_row_is_told_too(tmp_path: Path) -> None:
    file = new(tmp_path)
    file.append(b"one\n", 1)
    os.truncate(tmp_path / "1-1", 5)
    assert file.look_after() == [
        "1-1 was written to by somebody else: no row is lost; the next go into a new file"
    ]
    assert file.lost == 0
    assert file.parts == [FilePart("1-1", 1, 4, 0, "was written to by somebody else")]
    file.close()


@pytest.mark.parametrize("by", ["append", "append_by"])
def test_nothing_is_written_into_a_file_that_was_changed(tmp_path: Path, by: str) -> None:
    file = new(tmp_path)
    file.append(b"one\n", 1)
    os.truncate(file.path, 5)
    if by == "append":
        file.append(b"two\n", 1)
    else:
        assert file.append_by(lambda *_: (1, 9, False)) == 0
    file.close()
    assert contents(tmp_path) == {"1-1": b"one\n\0", **({"1-2": b"two\n"} if by == "append" else {})}


def test_rows_that_are_lost_again_are_added(tmp_path: Path) -> None:
    file = new(tmp_path)
    for name in ("1-1", "1-2"):
        file.append(b"one\n", 1)
        (tmp_path / name).unlink()
        file.look_after()
    assert file.lost == 2
    file.close()


def another_takes_names(folder: Path, *names: str) -> None:
    for name in ("1-1", "1-2"):
        (folder / name).unlink()
    for name in names:
        (folder / name).write_bytes(b"theirs")


def test_whose_names_another_process_took_goes_on_under_the_next_from_its_first_part(tmp_path: Path) -> None:
    file = new(tmp_path, 4)
    file.append(b"one\n", 1)
    file.append(b"2\n", 1)
    another_takes_names(tmp_path, "1-1", "2-2")
    said = file.look_after()
    assert (file.incarnation, file.lost) == (3, 2)
    assert said[-1] == (
        "another process has taken the names of our files, and 3-1 is the next: no row is lost; the next go "
        "into a new file"
    )
    assert file.parts == [FilePart("3-1", 0, 0)]
    file.append(b"two\n", 1)
    file.append(b"three\n", 1)
    file.close()
    assert contents(tmp_path) == {"1-1": b"theirs", "2-2": b"theirs", "3-1": b"two\n", "3-2": b"three\n"}


def test_rows_of_earlier_parts_are_given_up_where_the_names_are_another_s(tmp_path: Path) -> None:
    """Who reads them takes them for rows of the other process."""
    is_claimed: list[bool | None] = [None]
    file = new(tmp_path, 4, claimed=lambda first: is_claimed[0])
    file.append(b"one\n", 1)
    file.append(b"two\n", 1)
    (tmp_path / "1-2").unlink()
    is_claimed[0] = True
    said = file.look_after()
    assert [line.partition(":")[0] for line in said] == [
        "1-2 was deleted", "another process has taken the names of our files, and 2-1 is the next"
    ]  # fmt: skip
    assert (file.lost, file.incarnation) == (2, 2)
    file.close()


@pytest.mark.parametrize(("claimed", "incarnation"), [(None, 1), (False, 1), (True, 2)])
def test_what_is_beside_the_first_file_says_whose_the_names_are(
    tmp_path: Path, claimed: bool | None, incarnation: int
) -> None:
    file = new(tmp_path, claimed=lambda first: claimed)
    file.append(b"one\n", 1)
    os.truncate(tmp_path / "1-1", 1)
    file.look_after()
    assert file.incarnation == incarnation
    file.close()


# -- the first file --------------------------------------------------------------------------------------


def test_a_name_of_which_a_second_part_is_there_is_not_free(tmp_path: Path) -> None:
    (tmp_path / "1-1").touch()
    (tmp_path / "2-2").touch()
    file = new(tmp_path)
    assert (file.incarnation, file.path.name) == (3, "3-1")
    file.close()


def test_a_name_that_another_process_takes_first_is_left_to_it(tmp_path: Path) -> None:
    def taken(path: Path) -> bool:
        if path.name == "1-1":
            path.touch()  # between the look and the try
        return False

    file = FileInParts(tmp_path, lambda run, part: f"{run}-{part}", argument="folder", taken=taken)
    assert file.path.name == "2-1"
    file.close()


def test_a_file_has_its_head_and_permissions_at_once(tmp_path: Path) -> None:
    file = new(tmp_path, head=b"head\n", mode=0o600)
    assert file.path.read_bytes() == b"head\n"
    assert file.path.stat().st_mode & 0o777 == 0o600
    file.close()


def test_all_may_read_a_file_and_its_owner_write_it_unless_something_else_is_said(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        file = new(tmp_path)
    finally:
        os.umask(before)
    assert file.path.stat().st_mode & 0o777 == 0o644
    file.close()


@pytest.mark.parametrize(
    ("occupy", "kind"),
    [
        (Path.mkdir, "a directory"),
        (os.mkfifo, "a FIFO"),
        (lambda path: path.symlink_to("elsewhere"), "a symbolic link"),
    ],
)
def test_what_is_no_file_in_the_place_of_one_is_refused_by_its_kind(
    tmp_path: Path, occupy: Callable[[Path], object], kind: str
) -> None:
    occupy(tmp_path / "1-1")
    with pytest.raises(LogPathError, match=f"^folder: .*1-1' is {kind}, not a regular file"):
        new(tmp_path)


@pytest.mark.parametrize("below", ["", "folder/folder"])
def test_a_folder_that_is_a_file_or_below_one_is_refused_by_its_name(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LogPathError, match=r"^folder: .*/file' is a file, not a directory"):
        new(tmp_path / "file" / below)


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(LogPathError, match=r"^folder: .*/link' is a symbolic link, not a directory"):
        new(tmp_path / "link")


def test_what_is_no_path_is_refused() -> None:
    folder: Any = 5
    with pytest.raises(LogPathError, match=r"^folder must be a path, and is 5"):
        new(folder)


def test_a_folder_that_cannot_be_made_is_refused_with_the_reason() -> None:
    with pytest.raises(LogPathError, match=r"^folder='/nul.*' cannot be made: .*null"):
        new(Path("/nul\0"))


def test_a_folder_in_which_no_file_can_be_made_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "open", refuses)
    with pytest.raises(LogPathError, match=r"^folder=.*: no file can be made in it: .*Read-only"):
        new(tmp_path)
