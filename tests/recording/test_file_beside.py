"""A file beside the timing file follows the timing file, and is never another process's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from timing_logger.errors import LogPathError
from timing_logger.recording.file_beside import FileBeside
from timing_logger.schema.host_counters import HEADER
from timing_logger.schema.timing_files import HOST, TimingFile
from timing_logger.sinks.csv import CsvSink

LINE = b"1.000,2.000" + b"," * (HEADER.count(",") - 1) + b"\n"


def new(folder: Path) -> tuple[CsvSink, FileBeside]:
    timing_file = CsvSink(folder, 0)
    return timing_file, FileBeside(timing_file, HOST, HEADER, started_unix_ns=1, mode=0o600)


def test_it_has_the_number_of_the_timing_file_although_a_lower_one_is_free(tmp_path: Path) -> None:
    (tmp_path / "timing-rank0.csv").touch()
    _, file = new(tmp_path)
    assert file.name == ""
    file.append(LINE)
    assert file.name == "host-rank0.run2.csv"
    assert (tmp_path / file.name).read_bytes() == HEADER.encode() + LINE
    assert (tmp_path / file.name).stat().st_mode & 0o777 == 0o600


def test_a_run_does_not_take_a_number_under_which_counters_are_left(tmp_path: Path) -> None:
    (tmp_path / "host-rank0.csv").write_text("of an earlier run")
    timing_file, file = new(tmp_path)
    file.append(LINE)
    assert (timing_file.path.name, file.name) == ("timing-rank0.run2.csv", "host-rank0.run2.csv")
    assert (tmp_path / "host-rank0.csv").read_text() == "of an earlier run"


def test_something_else_under_its_name_is_refused_as_for_a_timing_file(tmp_path: Path) -> None:
    (tmp_path / "host-rank0.csv").mkdir()
    with pytest.raises(LogPathError, match="host-rank0"):
        CsvSink(tmp_path, 0)


def test_after_it_was_deleted_lines_go_into_a_part_and_what_is_gone_is_counted(tmp_path: Path) -> None:
    _, file = new(tmp_path)
    file.append(LINE)
    (tmp_path / "host-rank0.csv").unlink()
    (found,) = file.append(LINE)
    assert "was deleted" in found
    assert (tmp_path / "host-rank0.part2.csv").read_bytes() == HEADER.encode() + LINE
    assert file.lines == 1


def test_a_removed_folder_is_made_again(tmp_path: Path) -> None:
    _, file = new(tmp_path / "logs")
    file.append(LINE)
    shutil.rmtree(tmp_path / "logs")
    file.append(LINE)
    assert (tmp_path / "logs" / "host-rank0.part2.csv").read_bytes() == HEADER.encode() + LINE


OTHERS = ["timing-rank0.csv", "timing-rank0.meta.json", "host-rank0.csv"]


@pytest.mark.parametrize("names", [OTHERS, OTHERS[:2]], ids=["with counters", "without"])
def test_where_another_process_has_taken_the_names_it_waits_for_the_timing_file_to_take_others(
    tmp_path: Path, names: list[str]
) -> None:
    timing_file, file = new(tmp_path)
    file.append(LINE)
    for path in tmp_path.iterdir():
        path.unlink()
    for name in names:
        (tmp_path / name).write_text("{}")
    with pytest.raises(FileExistsError, match="another process"):
        file.append(LINE)
    timing_file.append(b"a row\n", 1)
    file.append(LINE)
    assert file.name == "host-rank0.run2.csv"
    assert {path.name for path in tmp_path.glob("host-*")} - set(names) == {"host-rank0.run2.csv"}
    assert {(tmp_path / name).read_text() for name in names} == {"{}"}


def test_lines_that_were_written_together_count_each(tmp_path: Path) -> None:
    _, file = new(tmp_path)
    assert file.lines == 0
    file.close()
    file.append(LINE * 3, 3)
    file.append(LINE)
    assert file.lines == 4


def test_lines_that_went_with_an_earlier_number_are_counted_no_more(tmp_path: Path) -> None:
    timing_file, file = new(tmp_path)
    file.append(LINE * 3, 3)
    (tmp_path / "host-rank0.csv").unlink()
    file.append(LINE)
    assert file.lines == 1
    for path in tmp_path.iterdir():
        path.unlink()
    for name in OTHERS:
        (tmp_path / name).write_text("{}")
    with pytest.raises(FileExistsError, match="another process"):
        file.append(LINE)
    timing_file.append(b"a row\n", 1)
    file.append(LINE * 2, 2)
    assert (file.name, file.lines) == ("host-rank0.run2.csv", 2)


def test_the_file_of_an_earlier_number_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, file = new(tmp_path)
    file.append(LINE)
    closed: list[str] = []
    monkeypatch.setattr(file._file, "close", lambda: closed.append("the first"))
    monkeypatch.setattr(CsvSink, "name", TimingFile(0, 2, 1))
    file.append(LINE)
    assert closed == ["the first"]
    assert file.name == "host-rank0.run2.csv"
