"""Which files a path leads to, and what they are called without their compression."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from timing_logger.errors import NotImportableError
from timing_logger.importing.source_files import files_at, files_now, plain_name, without_compression


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files of steps, one of another kind, and a folder with the name of one."""
    for name in ("b.jsonl", "a.JSONL.gz", "notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "c.jsonl").mkdir()
    return tmp_path


def test_of_a_folder_the_files_with_the_endings_count(folder: Path) -> None:
    assert files_at(folder, [".jsonl"]) == [folder / "a.JSONL.gz", folder / "b.jsonl"]


def test_a_file_that_is_named_counts_whatever_its_ending_and_once(folder: Path) -> None:
    named: list[Path | str] = [folder / "notes.txt", str(folder / "b.jsonl"), folder / "*.jsonl"]
    assert files_at(named, [".jsonl"]) == [folder / "b.jsonl", folder / "notes.txt"]
    assert files_now(named, [".jsonl"]) == [folder / "b.jsonl", folder / "notes.txt"]


def test_what_is_not_there_yet_is_no_file_now(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    nothing = [folder / "none.jsonl", folder / "*.csv", folder / "c.jsonl", folder / "pipe"]
    assert files_now(nothing, [".jsonl"]) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none.jsonl", "nothing is at"),
        ("*.csv", "nothing is at"),
        ("c.jsonl", r"has none of \*\.jsonl, also with"),
        ("pipe", "is no regular file"),
    ],
)
def test_a_path_that_leads_to_no_file_is_refused(folder: Path, name: str, said: str) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(NotImportableError, match=said):
        files_at([folder / "b.jsonl", folder / name], [".jsonl"])


def test_no_path_is_refused() -> None:
    with pytest.raises(NotImportableError, match="there is none"):
        files_at([], [".jsonl"])


@pytest.mark.parametrize(
    ("name", "plain", "before"),
    [
        ("A.json.GZ", "a.json", "A.json"),
        ("a.json.zst", "a.json", "a.json"),
        ("a.json", "a.json", None),
        (".gz", "", None),
    ],
)
def test_a_name_without_its_compression(name: str, plain: str, before: str | None) -> None:
    assert plain_name(name) == plain
    assert without_compression(Path(name)) == (Path(before) if before else None)
