"""Of a file that grows, whole lines are read, each once, from some line near its end on."""

from __future__ import annotations

from pathlib import Path

import pytest

from timing_logger.live.tails import FollowedFile

HEADER = b"a,b\n"
LINES = [b"line %d\n" % i for i in range(5)]  # of seven bytes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "timing-rank0.csv"
    path.write_bytes(HEADER + b"".join(LINES))
    return path


def add(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


@pytest.mark.parametrize(
    ("first_look_bytes", "n_lines"), [(0, 0), (7, 0), (8, 1), (14, 1), (15, 2), (34, 4), (35, 5), (99, 5)]
)
def test_the_first_look_reads_the_whole_lines_of_the_end(
    path: Path, first_look_bytes: int, n_lines: int
) -> None:
    end = FollowedFile(path, first_look_bytes)
    assert end.added() == b"".join(LINES[5 - n_lines :])
    assert end.header == HEADER


@pytest.mark.parametrize("first_look_bytes", [8, 99])
def test_a_later_look_reads_the_lines_that_were_completed(path: Path, first_look_bytes: int) -> None:
    end = FollowedFile(path, first_look_bytes)
    end.added()
    assert end.added() == b""
    add(path, b"one\ntw")
    assert end.added() == b"one\n"
    add(path, b"o\n")
    assert end.added() == b"two\n"


def test_a_header_without_its_end_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "timing-rank0.csv"
    path.write_bytes(HEADER[:-1])
    end = FollowedFile(path, 99)
    assert (end.added(), end.header) == (b"", b"")
    add(path, b"\n" + LINES[0])
    assert (end.added(), end.header) == (LINES[0], HEADER)


def test_a_file_that_begins_otherwise_is_another(path: Path) -> None:
    end = FollowedFile(path, 99)
    end.added()
    add(path, b"more\n")
    assert [end.is_replaced(), end.is_replaced()] == [False, False]
    path.write_bytes(HEADER + LINES[1])
    assert [end.is_replaced(), end.is_replaced()] == [True, False]
