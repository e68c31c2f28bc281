"""A line of a log of steps is a record, or is counted as what it is instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from timing_logger.importing.imported import LeftOut
from timing_logger.importing.step_records import StepRecords


def records_in(name: str, *lines: str) -> tuple[list[dict[str, object]], LeftOut]:
    """Return the records in lines of a file of this name, and what was left out."""
    left_out = LeftOut()
    records = StepRecords(Path(name), left_out)
    found = [record for line in lines if (record := records.of(line)) is not None]
    return [dict(record) for record in found], left_out


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ('1,"0.5', "a line that is no CSV"),
        ("1", "a line that has not as many cells as the header"),
        ("1,2,3", "a line that has not as many cells as the header"),
    ],
)
def test_a_line_of_csv_that_is_no_record_is_counted_and_the_next_is_read(line: str, instead: str) -> None:
    found, left_out = records_in("log.csv", "step,s", line, "2,0.5")
    assert (found, left_out) == ([{"step": "2", "s": "0.5"}], {instead: 1})


def test_a_quoted_cell_may_hold_what_separates_cells() -> None:
    assert records_in("log.csv", "step,note", '1,"a, b"') == ([{"step": "1", "note": "a, b"}], {})


def test_a_further_header_is_neither_a_record_nor_counted() -> None:
    assert records_in("log.csv", "step,s", "1,2", "step,s") == ([{"step": "1", "s": "2"}], {})


@pytest.mark.parametrize(
    ("name", "header", "line"),
    [
        ("log.csv", "step;s", "1;2"),
        ("log.csv", "step|s", "1|2"),
        ("log.tsv", "step\ta,b,c", "1\t2"),
        ("LOG.TSV.gz", "step\ta,b,c", "1\t2"),
        ("log.csv", " step , s ", "1,2"),
    ],
)
def test_cells_are_separated_as_the_header_or_the_name_of_the_file_tells(
    name: str, header: str, line: str
) -> None:
    found, _ = records_in(name, header, line)
    assert [list(record.values()) for record in found] == [["1", "2"]]


@pytest.mark.parametrize(
    ("line", "instead"), [('{"step"', "a line that is no JSON"), ("[1]", "a line that is no JSON object")]
)
def test_a_line_of_json_that_is_no_record_is_counted(line: str, instead: str) -> None:
    found, left_out = records_in("log.jsonl", ' {"step": 1}', line)
    assert (found, left_out) == ([{"step": 1}], {instead: 1})
