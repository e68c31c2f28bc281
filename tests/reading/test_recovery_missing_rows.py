"""Which rows of a ring a timing file lacks: those that are there in any spelling are not written again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from timing_logger.reading import recovery
from timing_logger.reading.recovery import write_missing
from timing_logger.schema.record import HEADER, Record, format_records
from timing_logger.schema.ring_file import Ring

OFFSET_NS = 10**18


def of_group(group: str, seq: int = 0) -> tuple[Any, ...]:
    return tuple(
        Record(0, 0, "", "BARRIER", "", None, 10, 20, "host", group, 4, seq, None, "MainThread", "ok")
    )


def left(*records: tuple[Any, ...]) -> Ring:
    return Ring(Path("timing-rank0.csv"), 0, OFFSET_NS, 0, 0, list(records), [], [], 0, 0)


@pytest.mark.parametrize("there", [r"h\u00e9", r"\U0000006ch\u00e9", "hé"])
def test_a_row_is_not_written_again_because_its_writer_escaped_more_of_a_name(
    tmp_path: Path, there: str
) -> None:
    name = "lhé" if there.startswith("\\U") else "hé"
    line = format_records([of_group("NAME")], OFFSET_NS).replace("NAME", there)
    file = tmp_path / "timing-rank0.csv"
    file.write_text(HEADER + line)
    assert write_missing([file], os.getuid(), left(of_group(name), of_group(name, 1))) == 1
    assert file.read_text() == HEADER + line + format_records([of_group(name, 1)], OFFSET_NS)


def test_a_name_with_a_backslash_is_not_that_without(tmp_path: Path) -> None:
    file = tmp_path / "timing-rank0.csv"
    file.write_text(HEADER + format_records([of_group(r"a\b")], OFFSET_NS))
    assert write_missing([file], os.getuid(), left(of_group("ab"), of_group(r"a\b"))) == 1


# -- what is written, and where ----------------------------------------------------------------------------


def rows(*seqs: int) -> str:
    return format_records([of_group("g", seq) for seq in seqs], OFFSET_NS)


def completed(content: str | bytes, *seqs: int, path: Path) -> tuple[int, bytes]:
    """Write a file, then what it lacks of a ring with these records; return how many rows, and the file."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    written = write_missing([path], os.getuid(), left(*(of_group("g", seq) for seq in seqs)))
    return written, path.read_bytes()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "timing-rank0.csv"


def test_a_file_that_has_all_rows_stays_as_it_is(file: Path) -> None:
    content = HEADER + rows(1, 2) + "torn"
    assert completed(content, 2, path=file) == (0, content.encode())
    assert completed(content, path=file) == (0, content.encode())


def test_a_record_that_is_there_twice_in_a_ring_is_written_as_often_as_the_file_lacks_it(file: Path) -> None:
    assert completed(HEADER + rows(1), 1, 1, 1, path=file) == (2, (HEADER + rows(1, 1, 1)).encode())


def test_an_empty_file_gets_a_header_first(file: Path) -> None:
    assert completed("", 1, path=file) == (1, (HEADER + rows(1)).encode())


def test_a_torn_line_is_replaced_if_it_is_one_of_the_rows_and_else_ended(file: Path) -> None:
    torn = rows(2)[:-5]
    assert completed(HEADER + rows(1) + torn, 3, 2, path=file) == (2, (HEADER + rows(1, 3, 2)).encode())
    assert completed(HEADER + rows(1) + torn, 3, path=file) == (
        1, (HEADER + rows(1) + torn + "\0\n" + rows(3)).encode(),
    )  # fmt: skip


def test_a_header_that_is_torn_is_ended_as_any_other_line(file: Path) -> None:
    assert completed("time", 1, path=file) == (1, b"time\0\n" + rows(1).encode())


def test_calls_that_were_open_are_rows_too(file: Path) -> None:
    file.write_text(HEADER)
    ring = left(of_group("g", 1))._replace(open_calls=[of_group("g", 2)])
    assert write_missing([file], os.getuid(), ring) == 2
    assert file.read_text() == HEADER + rows(1, 2)


def test_rows_may_be_in_any_part_and_what_lacks_goes_to_the_last(tmp_path: Path) -> None:
    parts = [tmp_path / name for name in ("timing-rank0.csv", "timing-rank0.part2.csv")]
    parts[0].write_text(HEADER + rows(1, 2))
    parts[1].write_text(HEADER + rows(3))
    assert write_missing(parts, os.getuid(), left(*(of_group("g", seq) for seq in (2, 3, 4)))) == 1
    assert [part.read_text() for part in parts] == [HEADER + rows(1, 2), HEADER + rows(3, 4)]


def test_the_wall_clock_of_a_row_does_not_tell_it_from_others(file: Path) -> None:
    earlier = format_records([of_group("g", 1)], OFFSET_NS - 10**12)
    assert earlier != rows(1)
    assert completed(HEADER + earlier, 1, path=file)[0] == 0


def test_a_file_of_another_user_is_neither_read_nor_written(file: Path) -> None:
    file.write_text(HEADER)
    with pytest.raises(OSError, match="belongs to another user"):
        write_missing([file], os.getuid() + 1, left(of_group("g", 1)))
    assert file.read_text() == HEADER


def test_a_torn_line_may_be_all_that_a_file_has(file: Path) -> None:
    assert completed(rows(2)[:-5], 2, path=file) == (1, rows(2).encode())


@pytest.mark.parametrize(
    ("n_bytes", "lines"),
    [
        (2, [b"d", b""]),
        (4, [b"c", b"d", b""]),
        (6, [b"c", b"d", b"", b"b", b""]),
        (99, [b"c", b"d", b"", b"a", b"b", b""]),
    ],
)
def test_no_more_is_read_than_may_hold_the_rows_from_the_last_part_on(
    tmp_path: Path, n_bytes: int, lines: list[bytes]
) -> None:
    parts = [tmp_path / "first", tmp_path / "second"]
    parts[0].write_bytes(b"a\nb\n")
    parts[1].write_bytes(b"c\nd\n")
    if n_bytes <= 4:
        parts[0].unlink()  # it is not looked for
    assert list(recovery._last_lines(parts, os.getuid(), n_bytes)) == lines


def test_a_file_that_becomes_another_users_meanwhile_is_not_written(file: Path) -> None:
    file.write_text(HEADER)
    for act in (
        lambda: recovery._append(file, os.getuid() + 1, [b"row\n"]),
        lambda: list(recovery._last_lines([file], os.getuid() + 1, 5)),
    ):
        with pytest.raises(OSError, match="belongs to another user"):
            act()
    assert file.read_text() == HEADER
