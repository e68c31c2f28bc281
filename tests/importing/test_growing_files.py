"""What is added to files is read once; a file that does not hold any more what it held has ended."""

from __future__ import annotations

import errno
import gzip
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from growing_sources import added
from open_files import is_open

from timing_logger.errors import NotImportableError, TooLargeError
from timing_logger.importing import growing_files
from timing_logger.importing.growing_files import EndedError, GrowingFile, GrowingFiles, many_files

LINES = b"".join(b"line %04d\n" % at for at in range(200))  # longer than what tells contents apart


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "steps.jsonl"
    path.write_bytes(LINES[:500])
    return path


@pytest.fixture
def files(log: Path, tmp_path: Path) -> GrowingFiles:
    return GrowingFiles(log.parent / "steps*", [".jsonl"], tmp_path / "out")


def read(file: GrowingFile) -> bytes:
    return b"".join(file.blocks())


def read_all(files: GrowingFiles) -> dict[str, bytes]:
    return {file.path.name: read(file) for file in files.look()}


def replace(log: Path) -> None:
    draft = log.with_name("draft")
    draft.write_bytes(LINES)
    draft.replace(log)


def test_what_was_added_is_read_once(files: GrowingFiles, log: Path) -> None:
    assert read_all(files) == {"steps.jsonl": LINES[:500]}
    assert read_all(files) == {"steps.jsonl": b""}
    added(log, LINES[500:])()
    assert read_all(files) == {"steps.jsonl": LINES[500:]}


def test_a_file_that_begins_anew_is_read_from_its_beginning(files: GrowingFiles) -> None:
    (file,) = files.look()
    read(file)
    file.begin_anew()
    assert read(file) == LINES[:500]


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "replaced": (replace, "was replaced by another file"),
    "renamed": (lambda log: log.rename(log.with_name("other")), "was renamed or removed"),
    "removed": (Path.unlink, "was renamed or removed"),
    "cut": (lambda log: os.truncate(log, 490), "was cut or written anew"),
    "written anew": (lambda log: log.write_bytes(LINES[:490] + b"X" * 900), "was cut or written anew"),
}


@pytest.mark.parametrize("begins_anew", [False, True])
@pytest.mark.parametrize(("change", "said"), CHANGES.values(), ids=CHANGES)
def test_a_file_that_does_not_hold_what_it_held_has_ended(
    files: GrowingFiles, log: Path, change: Callable[[Path], object], said: str, *, begins_anew: bool
) -> None:
    (file,) = files.look()
    read(file)
    change(log)
    if begins_anew:
        file.begin_anew()
    with pytest.raises(EndedError, match=said):
        read(file)


@pytest.mark.parametrize("change", [replace, lambda log: log.write_bytes(LINES)])
def test_a_file_of_which_nothing_was_read_may_become_another(
    files: GrowingFiles, log: Path, change: Callable[[Path], object]
) -> None:
    files.look()
    change(log)
    assert read_all(files) == {"steps.jsonl": LINES}


def test_a_file_under_another_name_is_not_read_again(files: GrowingFiles, log: Path) -> None:
    read_all(files)
    log.with_name("steps-latest.jsonl").symlink_to(log)
    log.with_name("steps-linked.jsonl").hardlink_to(log)
    assert read_all(files) == {"steps.jsonl": b""}


def test_another_file_that_has_the_inode_of_one_that_is_gone_is_read(files: GrowingFiles, log: Path) -> None:
    (file,) = files.look()
    read(file)
    file.is_over = True
    log.rename(log.with_name("steps-other.jsonl")).write_bytes(LINES[9:])
    assert read_all(files) == {"steps-other.jsonl": LINES[9:]}


def test_a_name_that_is_over_is_not_looked_at_again(files: GrowingFiles, log: Path) -> None:
    (file,) = files.look()
    file.is_over = True
    replace(log)
    assert (files.look(), len(files)) == ([], 1)


@pytest.mark.parametrize("stored", [gzip.compress(LINES), b"\x28\xb5\x2f\xfdabc"], ids=["gzip", "zstandard"])
def test_what_is_compressed_is_not_followed(files: GrowingFiles, log: Path, stored: bytes) -> None:
    log.write_bytes(stored)
    with pytest.raises(NotImportableError, match=r"steps\.jsonl' is compressed, and only files that are"):
        read_all(files)


def test_a_file_that_is_too_short_to_tell_whether_it_is_compressed_waits(
    files: GrowingFiles, log: Path
) -> None:
    log.write_bytes(b"abc")
    assert read_all(files) == {"steps.jsonl": b""}
    added(log, b"d")()
    assert read_all(files) == {"steps.jsonl": b"abcd"}


def test_a_file_is_open_only_while_it_is_read(files: GrowingFiles, log: Path) -> None:
    (file,) = files.look()
    blocks = file.blocks()
    next(blocks)
    assert is_open(log)
    assert list(blocks) == []
    assert not is_open(log)


@pytest.mark.parametrize(
    ("error", "raised"),
    [("EMFILE", TooLargeError), ("EACCES", NotImportableError), ("EIO", NotImportableError)],
)
def test_a_file_that_cannot_be_opened_is_said_to_be(
    files: GrowingFiles, monkeypatch: pytest.MonkeyPatch, error: str, raised: type[Exception]
) -> None:
    def fail(path: Path) -> None:
        raise OSError(getattr(errno, error), "for a reason")

    monkeypatch.setattr(growing_files, "opened", fail)
    with pytest.raises(raised):
        read_all(files)


def test_as_many_files_as_may_be_are_open_only_meanwhile() -> None:
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        lowered = resource.getrlimit(resource.RLIMIT_NOFILE)
        with many_files():
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == lowered
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
