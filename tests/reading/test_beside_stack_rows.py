"""Stack samples are read as the timings beside them, whatever state their files are in."""

from __future__ import annotations

from pathlib import Path

import pytest
from timing_files import record, write_timing_file

from timing_logger import read_stack_samples
from timing_logger.errors import NotATimingFileError
from timing_logger.reading.beside import stack_samples_of
from timing_logger.reading.timings import timing_files
from timing_logger.schema.timing_files import COLUMNS, HEADER

TWO = "10.000000,load,a/b.py,3,\n11.500000,load,a/b.py,4,dumps (json/__init__.py)\n"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return a folder with two ranks, of which each has two samples."""
    folder = tmp_path / "logs"
    for rank in range(2):
        write_timing_file(folder, rank, [record()])
        (folder / f"stacks-rank{rank}.csv").write_text(HEADER + TWO)
    return folder


def test_each_line_is_a_row_of_its_rank(logs: Path) -> None:
    table = read_stack_samples(logs)
    assert tuple(table.columns) == ("rank", "incarnation", "timestamp", "at_s", *COLUMNS)
    assert table["rank"].tolist() == [0, 0, 1, 1]
    assert table["counter"].tolist() == [10.0, 11.5, 10.0, 11.5]
    assert table["line"].tolist() == [3, 4, 3, 4]
    assert table["library_call"].tolist()[:2] == ["", "dumps (json/__init__.py)"]


def test_without_such_files_there_are_the_same_columns_and_no_row(logs: Path) -> None:
    expected = read_stack_samples(logs)
    for path in logs.glob("stacks-*"):
        path.unlink()
    table = read_stack_samples(logs)
    assert len(table) == 0
    assert list(table.columns) == list(expected.columns)
    assert table["line"].dtype == expected["line"].dtype


def test_a_line_that_was_cut_and_damaged_ones_are_left_out_and_said(logs: Path) -> None:
    with (logs / "stacks-rank1.csv").open("a") as file:
        file.write("12.0,load,a/b.py,x,\nnonsense\n13.0,load,a/b")
    with pytest.warns(UserWarning, match="stacks-rank1"):
        table = read_stack_samples(logs)
    assert len(table) == 4
    (_, stated) = table.attrs["files"]
    assert (stated["cut"], stated["bad_lines"]) == ("13.0,load,a/b", 2)


def test_a_file_of_something_else_is_refused_by_name_and_left_out_of_other_answers(logs: Path) -> None:
    (logs / "stacks-rank0.csv").write_text("a,b\n1,2\n")
    with pytest.raises(NotATimingFileError, match=r"stacks-rank0.csv' holds no stack samples"):
        read_stack_samples(logs)
    with pytest.warns(UserWarning, match="Its lines are left out"):
        assert set(stack_samples_of(timing_files(logs).aligned)["rank"]) == {1}
