"""What is read block by block is split into lines; those that cannot be used are counted."""

from __future__ import annotations

import pytest

from timing_logger.errors import NotImportableError
from timing_logger.importing import source_files
from timing_logger.importing.imported import LeftOut
from timing_logger.importing.source_files import Lines

TOO_LONG, NO_UTF8 = "a line of more than 1 MiB", "a line that is no UTF-8"


@pytest.fixture
def left_out(monkeypatch: pytest.MonkeyPatch) -> LeftOut:
    """What cannot be used, where a line may have 8 bytes."""
    monkeypatch.setattr(source_files, "MOST_LINE_BYTES", 8)
    return LeftOut()


def lines_in(left_out: LeftOut, *blocks: bytes) -> list[str]:
    """The lines of a file, in whatever blocks it is read."""
    found = Lines("log", left_out)
    return [line for block in blocks for line in found.of(block)] + list(found.rest())


def test_a_line_is_complete_where_its_end_was_read() -> None:
    found = Lines("log", LeftOut())
    assert (list(found.of(b"a\nb")), found.has_rest) == (["a"], True)
    assert (list(found.of(b"c\n")), found.has_rest) == (["bc"], False)
    assert list(found.rest()) == []
    assert list(found.of(b"d")) == []
    assert (list(found.rest()), found.has_rest) == (["d"], False)
    assert list(found.of(b"e\n")) == ["e"]


@pytest.mark.parametrize(
    "blocks",
    [
        (b"a\n123456789\nb\n",),
        (b"a\n123456", b"789\nb\n"),
        (b"a\n1234567890", b"1\nb\n"),
        (b"a\n1234567890", b"1234567890", b"1\nb\n"),
        (b"a\n1234567890", b"\nb\n"),
        (b"a\nb\n1234567890",),
    ],
)
def test_a_line_that_is_too_long_is_counted_once_and_the_next_one_is_read(
    left_out: LeftOut, blocks: tuple[bytes, ...]
) -> None:
    assert (lines_in(left_out, *blocks), left_out) == (["a", "b"], {TOO_LONG: 1})


def test_a_line_too_long_has_begun_though_nothing_of_it_is_held(left_out: LeftOut) -> None:
    found = Lines("log", left_out)
    assert (list(found.of(b"1234567890")), found.has_rest, left_out) == ([], True, {})


def test_a_line_as_long_as_may_be_is_read(left_out: LeftOut) -> None:
    assert (lines_in(left_out, b"12345678", b"\n12345678"), left_out) == (["12345678"] * 2, {})


def test_a_line_may_have_a_mebibyte() -> None:
    left_out = LeftOut()
    assert [len(line) for line in lines_in(left_out, b"a" * 2**20 + b"\n")] == [2**20]
    assert lines_in(left_out, b"a" * (2**20 + 1) + b"\n") == []
    assert left_out == {TOO_LONG: 1}


def test_a_line_that_is_no_utf8_is_counted_and_blank_ones_are_not(left_out: LeftOut) -> None:
    assert lines_in(left_out, b"\n \t\r\n\xff\na\r\n\n") == ["a"]
    assert left_out == {NO_UTF8: 1}


def test_only_the_first_line_may_have_a_mark_before_it() -> None:
    assert lines_in(LeftOut(), b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n") == ["a", "\ufeffb"]


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_a_file_of_utf16_is_refused_with_what_to_do(mark: bytes) -> None:
    with pytest.raises(NotImportableError, match=r"^paths: 'log' is UTF-16\. Save it as UTF-8\.$"):
        lines_in(LeftOut(), mark + b"a\0\n")
    left_out = LeftOut()
    assert (lines_in(left_out, b"a\n" + mark), left_out) == (["a"], {NO_UTF8: 1})
