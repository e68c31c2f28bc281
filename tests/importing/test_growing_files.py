"""Files that lose their names are followed for so many looks more, as their writers may still add to them."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from growing_sources import added
from open_files import is_open

from timing_logger.importing import growing_files
from timing_logger.importing.growing_files import GrowingFiles, many_files


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a line; files without a name are followed for two looks."""
    monkeypatch.setattr(growing_files, "_LOOKS_WITHOUT_NAME", 2)
    path = tmp_path / "steps.jsonl"
    path.write_bytes(b"a line\n")
    return path


@pytest.fixture
def files(log: Path, tmp_path: Path) -> Iterator[GrowingFiles]:
    found = GrowingFiles(log, [".jsonl"], tmp_path / "out", lambda _: None)
    yield found
    found.close()


def n_found(files: GrowingFiles) -> int:
    """Look for files, read what they have, and return how many there are."""
    found = files.look()
    for file in found:
        list(file.blocks())
    return len(found)


def test_a_file_without_a_name_is_followed_for_so_many_looks(files: GrowingFiles, log: Path) -> None:
    assert n_found(files) == 1
    log.unlink()
    assert [n_found(files) for _ in range(3)] == [1, 1, 0]


def test_a_file_that_got_another_name_meanwhile_is_followed_on(files: GrowingFiles, log: Path) -> None:
    assert n_found(files) == 1
    kept = log.with_suffix(".kept")
    log.rename(kept)
    assert [n_found(files) for _ in range(2)] == [1, 1]
    kept.rename(log)
    assert n_found(files) == 1
    log.unlink()
    assert [n_found(files) for _ in range(3)] == [1, 1, 0]


def test_looks_are_counted_anew_when_a_file_without_a_name_grows(files: GrowingFiles, log: Path) -> None:
    assert n_found(files) == 1
    moved = log.rename(log.with_suffix(".moved"))
    assert [n_found(files) for _ in range(2)] == [1, 1]
    added(moved, b"another\n")()
    assert [n_found(files) for _ in range(3)] == [1, 1, 0]


def test_a_file_that_was_left_out_is_tried_again_once_nothing_had_its_name(
    files: GrowingFiles, log: Path
) -> None:
    (file,) = files.look()
    files.leave_out(file, "damaged")
    assert n_found(files) == 0
    moved = log.rename(log.with_suffix(".moved"))
    assert n_found(files) == 0
    moved.rename(log)
    assert n_found(files) == 1


@pytest.mark.parametrize("why", ["damaged", ""])
def test_a_file_that_is_left_out_is_closed_and_only_with_a_reason_told_of(
    log: Path, tmp_path: Path, why: str
) -> None:
    said: list[str] = []
    files = GrowingFiles([log], [".jsonl"], tmp_path / "out", said.append)
    (file,) = files.look()
    assert (is_open(log), len(files)) == (True, 1)
    files.leave_out(file, why)
    assert (is_open(log), len(files)) == (False, 0)
    assert said == ([f"{log}: damaged"] if why else [])
    assert len(files.look()) == (0 if why else 1)
    files.close()


def test_all_files_are_closed_in_the_end(files: GrowingFiles, log: Path) -> None:
    files.look()
    files.close()
    assert (is_open(log), len(files)) == (False, 0)


def test_a_compressed_copy_that_is_not_read_is_not_kept_open(files: GrowingFiles, log: Path) -> None:
    copy = log.with_suffix(".jsonl.gz")
    copy.touch()
    both = GrowingFiles([log, copy], [".jsonl"], log.parent / "out", lambda _: None)
    assert [file.path for file in both.look()] == [log]
    assert (is_open(copy), is_open(log)) == (False, True)
    both.close()


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
