"""Whose file counts, and that nothing blocks or acts meanwhile; a file is made and replaced by no link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from timing_logger.process import shared_files
from timing_logger.process.shared_files import (
    UntrustedFileError,
    content_of_small,
    draft_name,
    open_owned,
    owner_of,
    owner_of_both,
    replace,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"mine")
    path.chmod(0o600)
    return path


def refused(path: Path, owner: int, *, private: bool = False) -> str:
    """Return why a file is not opened; it is not left open either."""
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(UntrustedFileError) as error:
        open_owned(path, owner, private=private)
    assert len(os.listdir("/proc/self/fd")) == before
    assert error.value.filename == str(path)
    return str(error.value.strerror)


def test_a_file_of_the_user_is_opened_and_its_owner_told(file: Path) -> None:
    with open(open_owned(file, owner_of(file)), "rb") as opened:
        assert opened.read() == b"mine"
    assert owner_of(file) == file.stat().st_uid


def test_it_is_opened_for_what_is_asked(file: Path) -> None:
    with open(open_owned(file, os.getuid(), os.O_RDWR), "r+b") as opened:
        opened.write(b"hers")
    assert file.read_bytes() == b"hers"


def test_a_child_does_not_get_it(file: Path) -> None:
    with open(open_owned(file, os.getuid()), "rb") as opened:
        assert not os.get_inheritable(opened.fileno())


def test_a_file_of_another_user_is_refused(file: Path) -> None:
    assert refused(file, file.stat().st_uid + 1) == "it belongs to another user"


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_what_is_no_regular_file_is_refused_and_has_no_owner(tmp_path: Path, file: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "link":
        path.symlink_to(file)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert refused(path, os.getuid()) == "it is no regular file"
    with pytest.raises(UntrustedFileError, match="it is no regular file"):
        owner_of(path)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_private_file_is_refused_if_others_may_write_to_it(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert refused(file, os.getuid(), private=True) == "other users may write to it"
    os.close(open_owned(file, os.getuid()))


def test_others_may_read_a_private_file(file: Path) -> None:
    file.chmod(0o644)
    os.close(open_owned(file, os.getuid(), private=True))


def test_a_file_that_was_replaced_while_it_was_opened_is_refused(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def replaced_first(path: Path, flags: int) -> int:
        other = tmp_path / "other"
        other.write_bytes(b"theirs")
        other.replace(file)
        return opened(path, flags)

    monkeypatch.setattr(os, "open", replaced_first)
    assert refused(file, os.getuid()) == "it was replaced at this moment"


def test_a_link_that_took_the_place_of_the_file_meanwhile_is_not_followed(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def replaced_first(path: Path, flags: int) -> int:
        file.rename(tmp_path / "moved")
        file.symlink_to(tmp_path / "moved")
        return opened(path, flags)

    monkeypatch.setattr(os, "open", replaced_first)
    with pytest.raises(OSError, match="symbolic links"):
        open_owned(file, os.getuid())


def test_a_file_and_its_sidecar_of_two_users_are_refused(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sidecar = tmp_path / "sidecar"
    monkeypatch.setattr(shared_files, "owner_of", lambda path: 1 if path == file else 2)
    with pytest.raises(UntrustedFileError, match="it belongs to another user than the timing file"):
        owner_of_both(file, sidecar)
    assert owner_of_both(file, file) == 1


@pytest.mark.parametrize("size", [4, 5])
def test_a_small_file_is_read_unless_it_is_larger_than_that(file: Path, size: int) -> None:
    file.write_bytes(b"x" * size)
    if size == 4:
        assert content_of_small(file, 4) == b"xxxx"
    else:
        with pytest.raises(UntrustedFileError, match="it is no regular file of at most 4 bytes"):
            content_of_small(file, 4)


def test_a_fifo_in_the_place_of_a_small_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UntrustedFileError, match="it is no regular file"):
        content_of_small(tmp_path / "fifo", 4)


def test_a_link_in_the_place_of_a_draft_is_not_followed(file: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"theirs")
    draft_name(file).symlink_to(victim)
    replace(file, b"new")
    assert (file.read_bytes(), victim.read_bytes()) == (b"new", b"theirs")


def test_a_file_that_cannot_be_replaced_stays_and_no_draft_is_left(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(draft: Path, path: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError):
        replace(file, b"new")
    assert (file.read_bytes(), os.listdir(tmp_path)) == (b"mine", ["file"])
