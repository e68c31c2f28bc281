"""How what a growing file holds stands to what was read under its name, and what is read on then."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from timing_logger.importing.growing_file import GrowingFile

LINES = b"".join(b"line %04d\n" % at for at in range(200))  # longer than what tells contents apart
OTHER = LINES.replace(b"line", b"look")


class Files:
    """Opens files that grow, and closes them in the end."""

    def __init__(self, path: Path, closed: ExitStack) -> None:
        self.path, self._closed = path, closed

    def opened(self, content: bytes, name: str = "log.jsonl") -> GrowingFile:
        path = self.path / name
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        file = GrowingFile(path, os.open(path, os.O_RDONLY))
        self._closed.callback(file.close)
        return file


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    with ExitStack() as closed:
        yield Files(tmp_path, closed)


def read(file: GrowingFile) -> bytes:
    return b"".join(file.blocks())


def in_place_of(files: Files, before: GrowingFile, content: bytes, name: str = "log.jsonl") -> GrowingFile:
    """Return a file with this content that is found under the name of another."""
    file = files.opened(content, name)
    file.replaces = before
    return file


def test_what_was_added_is_read_once(files: Files) -> None:
    file = files.opened(LINES[:500])
    assert read(file) == LINES[:500]
    assert (read(file), file.has_changed()) == (b"", False)
    with file.path.open("ab") as more:
        more.write(LINES[500:])
    assert file.has_changed()
    assert (file.standing(), read(file)) == ("goes on", LINES[500:])
    file.begin_anew()
    assert read(file) == LINES


def test_what_is_written_anew_and_holds_the_same_is_read_from_there_on(files: Files) -> None:
    before = files.opened(LINES[:500])
    read(before)
    file = in_place_of(files, before, LINES)
    assert file.last_read is before
    assert file.standing() == "repeats"
    assert (file.replaces, file.last_read) == (None, file)
    assert read(file) == LINES[500:]
    assert file.standing() == "goes on"


@pytest.mark.parametrize(
    "content",
    [OTHER, LINES[:499] + b"X" + LINES[500:], b"X" + LINES[1:]],
    ids=["all", "the end", "the begin"],
)
def test_what_holds_something_else_is_another_and_read_from_its_beginning(
    files: Files, content: bytes
) -> None:
    before = files.opened(LINES[:500])
    read(before)
    file = in_place_of(files, before, content)
    assert file.standing() == "is another"
    assert file.replaces is None
    assert read(file) == content


def test_while_it_holds_less_it_is_unclear_which_it_is(files: Files) -> None:
    before = files.opened(LINES[:1500])
    read(before)
    file = in_place_of(files, before, LINES[:1200])
    assert file.standing() == "unclear"
    with file.path.open("ab") as more:
        more.write(LINES[1200:])
    assert (file.standing(), read(file)) == ("repeats", LINES[1500:])


def test_a_file_that_is_written_again_in_place_is_compared_with_what_it_held(files: Files) -> None:
    file = files.opened(LINES[:1500])
    read(file)
    file.path.write_bytes(LINES[:20])
    assert file.standing() == "unclear"
    file.path.write_bytes(LINES)
    assert (file.standing(), read(file)) == ("repeats", LINES[1500:])


def test_a_file_that_begins_otherwise_in_place_is_another_at_once(files: Files) -> None:
    file = files.opened(LINES[:1500])
    read(file)
    file.path.write_bytes(OTHER[:20])
    assert (file.standing(), read(file)) == ("is another", OTHER[:20])
    file.path.write_bytes(OTHER)
    assert (file.standing(), read(file)) == ("goes on", OTHER[20:])


@pytest.mark.parametrize("more", [b"", LINES[500:]], ids=["the same", "more"])
def test_what_was_compressed_is_read_from_where_the_original_was(files: Files, more: bytes) -> None:
    before = files.opened(LINES[:500])
    read(before)
    file = in_place_of(files, before, gzip.compress(LINES[:500] + more), "log.jsonl.gz")
    assert file.is_compressed()
    assert file.standing() == "repeats"
    assert read(file) == more
    assert not file.is_cut


@pytest.mark.parametrize("content", [OTHER, LINES[:499] + b"X" + LINES[500:]], ids=["the begin", "the end"])
def test_what_was_compressed_of_something_else_is_another(files: Files, content: bytes) -> None:
    before = files.opened(LINES[:500])
    read(before)
    file = in_place_of(files, before, gzip.compress(content), "log.jsonl.gz")
    assert file.standing() == "is another"
    assert read(file) == content


def test_while_the_compressed_file_holds_less_it_is_unclear(files: Files) -> None:
    before = files.opened(LINES[:1500])
    read(before)
    stored = gzip.compress(LINES, 0)
    file = in_place_of(files, before, stored[:700], "log.jsonl.gz")
    assert [file.standing(), file.standing()] == ["unclear", "unclear"]
    with file.path.open("ab") as more:
        more.write(stored[700:])
    assert (file.standing(), read(file)) == ("repeats", LINES[1500:])


def test_a_file_that_is_too_short_to_tell_whether_it_is_compressed_waits(files: Files) -> None:
    file = files.opened(b"abc")
    assert (file.tells_its_kind(), read(file)) == (False, b"")
    with file.path.open("ab") as more:
        more.write(b"d")
    assert (file.tells_its_kind(), read(file)) == (True, b"abcd")


def test_the_head_is_what_the_content_begins_with_compressed_or_not(files: Files) -> None:
    assert files.opened(LINES).head() == LINES[:1024]
    assert files.opened(b"short").head() == b"short"
    assert files.opened(gzip.compress(LINES)).head() == LINES[:1024]
    of_cut = files.opened(gzip.compress(LINES, 0)[:700]).head()
    assert LINES[:500] == of_cut[:500]
    assert LINES.startswith(of_cut)
    assert files.opened(b"\x1f\x8bdamaged").head() == b""


def test_a_compressed_file_that_ends_within_a_member_is_cut(files: Files) -> None:
    file = files.opened(gzip.compress(LINES)[:-3])
    assert not file.is_cut
    assert read(file) == LINES
    assert file.is_cut
    assert not files.opened(LINES).is_cut
