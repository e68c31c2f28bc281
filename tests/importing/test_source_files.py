"""Which files a path leads to, and what is in them, compressed or not."""

from __future__ import annotations

import gzip
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from timing_logger.errors import ConfigurationError, NotImportableError
from timing_logger.importing import source_files
from timing_logger.importing.imported import LeftOut
from timing_logger.importing.source_files import (
    CUT_OR_DAMAGED,
    DamagedError,
    blocks_of,
    files_at,
    found_at,
    is_compressed,
    lines_of,
    plain_name,
)


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
    found = [found_at(one, [".jsonl"]) for one in named]
    assert found == [[folder / "notes.txt"], [folder / "b.jsonl"], [folder / "b.jsonl"]]


def test_what_is_not_there_yet_is_no_file_now(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    nothing = [folder / "none.jsonl", folder / "*.csv", folder / "c.jsonl", folder / "pipe"]
    assert [found_at(one, [".jsonl"]) for one in nothing] == [[], [], [], []]


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
    ("name", "plain"),
    [("A.json.GZ", "a.json"), ("a.json.zst", "a.json"), ("a.json", "a.json"), (".gz", "")],
)
def test_a_name_without_its_compression(name: str, plain: str) -> None:
    assert plain_name(name) == plain


# -- what is in a file -----------------------------------------------------------------------------------


ONE, OTHER = gzip.compress(b"a line\n"), gzip.compress(b"another\n")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a"


def content_of(path: Path, stored: bytes) -> bytes:
    path.write_bytes(stored)
    return b"".join(blocks_of(path))


@pytest.mark.parametrize(
    ("head", "compressed"),
    [
        (b"\x1f\x8b\x08\x00", True), (b"\x28\xb5\x2f\xfd", True), (b"\x1f\x8c\x08\x00", False),
        (b"\x28\xb5\x2f", False), (b"", False), (b"text", False),
    ],
)  # fmt: skip
def test_the_first_bytes_tell_what_is_compressed(head: bytes, *, compressed: bool) -> None:
    assert is_compressed(head) == compressed


def zstandard(content: bytes) -> bytes:
    packed: bytes = pytest.importorskip("zstandard").compress(content)
    return packed


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard])
def test_a_file_is_read_as_its_first_bytes_say(path: Path, compress: Callable[[bytes], bytes]) -> None:
    assert content_of(path, compress(b"content")) == b"content"


@pytest.mark.parametrize(
    ("stored", "blocks"),
    [
        (b"", []), (b"ab", [b"ab"]), (b"abcdefg", [b"abc", b"def", b"g"]),
        (ONE * 5, [b"a line\n"] * 5),
    ],
)  # fmt: skip
def test_blocks_have_their_size_but_for_the_last(path: Path, stored: bytes, blocks: list[bytes]) -> None:
    path.write_bytes(stored)
    assert list(blocks_of(path, 3)) == blocks


@pytest.mark.parametrize("stored", [ONE + b"no member", ONE + OTHER[:-1]], ids=["damaged", "cut"])
def test_what_was_read_before_a_file_is_damaged_is_a_block(path: Path, stored: bytes) -> None:
    path.write_bytes(stored)
    blocks = blocks_of(path)
    assert next(blocks).startswith(b"a line\n")
    with pytest.raises(DamagedError):
        next(blocks)


@pytest.mark.parametrize("piece_bytes", [1, 5, 1000])
def test_members_follow_each_other_with_or_without_padding(
    path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(source_files, "_GZIP_PIECE_BYTES", piece_bytes)
    stored = ONE + OTHER + b"\0" * 7 + ONE + b"\0" * 3
    assert content_of(path, stored) == b"a line\nanother\na line\n"


def test_frames_of_zstandard_follow_each_other(path: Path) -> None:
    assert content_of(path, zstandard(b"a") + zstandard(b"b")) == b"ab"


def test_what_repeats_far_behind_is_decompressed(path: Path) -> None:
    content = random.Random(7).randbytes(30_000) * 2
    assert content_of(path, gzip.compress(content)) == content


def test_a_member_that_is_far_larger_than_it_is_stored_is_unpacked_in_blocks(path: Path) -> None:
    path.write_bytes(gzip.compress(bytes(3 * 2**24), compresslevel=1))
    blocks = [len(block) for block in blocks_of(path)]
    assert (sum(blocks), max(blocks) < 2**25) == (3 * 2**24, True)


def test_memory_that_lacks_is_no_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def decompress(self, data: bytes, /) -> bytes:
            raise MemoryError

    monkeypatch.setattr("timing_logger.importing.source_files.zlib.decompressobj", lambda wbits: Full())
    with pytest.raises(MemoryError):
        content_of(path, ONE)


def test_without_a_package_for_zstandard_it_is_said_what_to_do(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("zstandard", "compression", "compression.zstd"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ConfigurationError, match="a' is compressed with Zstandard, which needs a package"
    ) as said:
        content_of(path, b"\x28\xb5\x2f\xfd")
    assert str(said.value).endswith("pip install 'timing_logger[import]'. Or decompress it: unzstd.")


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
