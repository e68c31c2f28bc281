"""Which rows of a ring a timing file lacks: those that are there in any spelling are not written again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from timing_logger.reading.missing_rows import write_missing
from timing_logger.record import HEADER, Record, format_records
from timing_logger.ring_file import Ring

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
