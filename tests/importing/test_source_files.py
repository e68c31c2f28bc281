"""Which files a path leads to, and what they are called without their compression."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from timing_logger.errors import NotImportableError
from timing_logger.importing.imported import LeftOut
from timing_logger.importing.source_files import (
    blocks_of,
    files_at,
    files_now,
    lines_of,
    opened,
    plain_name,
    without_compression,
)
from timing_logger.importing.unpacking import CUT_OR_DAMAGED, DamagedError


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


# -- what is in a file -----------------------------------------------------------------------------------


class InPieces(io.BytesIO):
    """A file that gives no more than two bytes at a time."""

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(min(size or 0, 2))


@pytest.mark.parametrize("file", [io.BytesIO, InPieces])
@pytest.mark.parametrize(
    ("content", "blocks"),
    [(b"", []), (b"ab", [b"ab"]), (b"abcdef", [b"abc", b"def"]), (b"abcdefg", [b"abc", b"def", b"g"])],
)
def test_blocks_have_their_size_but_for_the_last(
    file: type[io.BytesIO], content: bytes, blocks: list[bytes]
) -> None:
    assert list(blocks_of(file(content), 3)) == blocks


@pytest.mark.parametrize("error", [EOFError, RuntimeError])
def test_what_was_read_before_a_file_is_damaged_is_a_block(error: type[Exception]) -> None:
    class Damaged(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            if piece := super().read1(size):
                return piece
            raise error("here")

    blocks = blocks_of(Damaged(b"abcd"), 3)
    assert [next(blocks), next(blocks)] == [b"abc", b"d"]
    with pytest.raises(DamagedError, match="here"):
        next(blocks)


def test_an_error_of_the_disk_is_no_damage() -> None:
    class Failing(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        list(blocks_of(Failing(), 3))


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_file_is_opened_as_its_first_bytes_say(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    (tmp_path / "a").write_bytes(compress(b"content"))
    with opened(tmp_path / "a") as file:
        assert list(blocks_of(file, 100)) == [b"content"]


@pytest.mark.parametrize(
    ("stored", "lines", "n_cut"),
    [
        (b"a\nb", ["a", "b"], 0),
        (gzip.compress(b"a\nb"), ["a", "b"], 0),
        (gzip.compress(b"a\nb")[:-9], ["a"], 1),
        (gzip.compress(b"a\nb") + b"no member", ["a"], 1),
        (b"", [], 0),
    ],
    ids=["plain", "gzip", "cut", "damaged", "empty"],
)
def test_the_last_line_of_a_file_that_is_cut_or_damaged_is_left_out(
    tmp_path: Path, stored: bytes, lines: list[str], n_cut: int
) -> None:
    (tmp_path / "a").write_bytes(stored)
    left_out = LeftOut()
    assert list(lines_of(tmp_path / "a", left_out)) == lines
    assert left_out == ({CUT_OR_DAMAGED: 1} if n_cut else {})
