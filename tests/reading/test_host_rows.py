"""Counters of hosts are read as the timings beside them, whatever state their files are in."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pandas as pd
import pytest
from timing_files import record, write_sidecar, write_timing_file

from timing_logger import convert, read_host_counters, read_timings
from timing_logger.errors import NotATimingFileError, NoTimingFilesError
from timing_logger.reading.host_rows import counters_in
from timing_logger.reading.timings import timing_files
from timing_logger.schema.host_counters import HEADER, NAMES

NS = 10**9


def line(start_s: float, **counters: object) -> str:
    cells = [f"{start_s:.3f}", f"{start_s + 1:.3f}", *(str(counters.get(name, "")) for name in NAMES)]
    return ",".join(cells) + "\n"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return a folder with two ranks, of which each has two seconds of counters."""
    folder = tmp_path / "logs"
    for rank in range(2):
        write_timing_file(folder, rank, [record()])
        text = HEADER + line(10, major_faults=rank, cpu_mhz=1000) + line(11, usable_cores=1.5)
        (folder / f"host-rank{rank}.csv").write_text(text)
    return folder


def faults(table: pd.DataFrame) -> list[float]:
    return [float(value) for value in table["major_faults"].dropna()]


def test_each_line_is_a_row_of_its_rank_with_nan_for_what_is_blank(logs: Path) -> None:
    table = read_host_counters(logs)
    assert list(table.columns)[:7] == [
        "rank", "incarnation", "timestamp", "start_s", "end_s", "start_counter", "end_counter",
    ]  # fmt: skip
    assert tuple(table.columns)[7:] == NAMES
    assert table["rank"].tolist() == [0, 0, 1, 1]
    assert faults(table) == [0, 1]
    assert table["start_counter"].tolist() == [10, 11, 10, 11]
    assert table["usable_cores"].dropna().tolist() == [1.5, 1.5]
    assert {str(table[name].dtype) for name in NAMES} == {"float64"}


def test_a_rank_without_such_a_file_has_no_rows(logs: Path) -> None:
    (logs / "host-rank0.csv").unlink()
    assert set(read_host_counters(logs)["rank"]) == {1}
    (logs / "host-rank1.csv").unlink()
    table = read_host_counters(logs)
    assert len(table) == 0
    assert tuple(table.columns)[7:] == NAMES


def test_parts_are_read_as_one_file_in_their_order(logs: Path) -> None:
    for part in (10, 2):
        (logs / f"host-rank0.part{part}.csv").write_text(HEADER + line(10 * part, major_faults=part))
    assert faults(read_host_counters(logs)) == [0, 2, 10, 1]


def test_counters_of_a_run_that_is_left_out_are_left_out_too(logs: Path) -> None:
    for rank in range(2):
        write_timing_file(logs, rank, [record()], incarnation=2)
    (logs / "host-rank1.run2.csv").write_text(HEADER + line(20, major_faults=5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert faults(read_host_counters(logs, incarnations=2)) == [5]
        assert faults(read_host_counters(logs, incarnations=1)) == [0, 1]
        everything = read_host_counters(logs, incarnations="all")
    assert everything["incarnation"].tolist() == [1, 1, 1, 1, 2]


@pytest.mark.parametrize(
    "damaged",
    [
        "10.000,11.000,3\n",
        "\0\n",
        HEADER,
        *(line(12, major_faults=cell) for cell in ("x", "1.2.3", "inf", "1_0", "0x1")),
    ],
)
def test_a_damaged_line_is_skipped_and_said(logs: Path, damaged: str) -> None:
    with (logs / "host-rank0.csv").open("a") as file:
        file.write(damaged + line(13, major_faults=7))
    with pytest.warns(UserWarning, match=r"host-rank0.csv: 1 damaged line was skipped"):
        table = read_host_counters(logs)
    assert faults(table) == [0, 7, 1]
    assert table.attrs["files"][0]["bad_lines"] == 1


def test_an_unterminated_last_line_is_cut_and_said(logs: Path) -> None:
    with (logs / "host-rank0.csv").open("a") as file:
        file.write(line(12, major_faults=77)[:-1])
    with pytest.warns(UserWarning, match=r"host-rank0.csv: the unterminated last line was cut"):
        assert faults(read_host_counters(logs)) == [0, 1]


@pytest.mark.parametrize("text", ["", "start_coun", HEADER])
def test_a_file_that_was_just_begun_has_no_rows(logs: Path, text: str) -> None:
    (logs / "host-rank0.csv").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert faults(read_host_counters(logs)) == [1]


def test_a_file_of_another_version_lacks_what_it_does_not_know_and_what_it_alone_knows_is_left_out(
    logs: Path,
) -> None:
    (logs / "host-rank0.csv").write_text("start_counter,end_counter,invented,major_faults\n1,2,3,4\n")
    table = read_host_counters(logs)
    assert faults(table) == [4, 1]
    assert "invented" not in table.columns


def test_another_kind_of_file_is_refused(logs: Path) -> None:
    (logs / "host-rank0.csv").write_text("a,b\n1,2\n")
    with pytest.raises(NotATimingFileError, match=r"host-rank0.csv.*start_counter.*'a,b'"):
        read_host_counters(logs)


def test_instants_are_on_the_axis_of_the_timings_and_on_the_wall_clock(logs: Path) -> None:
    for rank, host in enumerate("ab"):
        sidecar = write_sidecar(logs / f"timing-rank{rank}.csv")
        anchor = {"perf_counter_ns": 10 * NS, "unix_ns": (20 + rank) * NS, "uncertainty_ns": 1}
        stated = {**json.loads(sidecar.read_text()), "host": host, "clock_anchors": [anchor]}
        sidecar.write_text(json.dumps(stated))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = read_host_counters(logs)
    assert table["start_s"].tolist() == [10, 11, 11, 12]
    assert (table["timestamp"].astype("int64") // 10**6).tolist() == [20, 21, 21, 22]


def test_readers_of_timings_do_not_take_them_for_timings(logs: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_timings(logs)["rank"].tolist() == [0, 1]
        assert len(timing_files(logs).aligned) == 2
        convert(logs, "csv", tmp_path / "rows.csv")
        convert(logs, "parquet", tmp_path / "parquet")
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 3


def test_without_timings_there_is_nothing_to_read(logs: Path) -> None:
    for file in logs.glob("timing-*"):
        file.unlink()
    with pytest.raises(NoTimingFilesError):
        read_host_counters(logs)


def test_a_line_without_the_start_or_the_end_of_its_interval_is_damaged(logs: Path) -> None:
    start, end, rest = line(12, major_faults=9).split(",", 2)
    data = HEADER + line(10, major_faults=7) + f",{end},{rest}" + f"{start},,{rest}"
    rows = counters_in(logs / "host-rank0.csv", data.encode())
    assert rows[:, :2].tolist() == [[10.0, 11.0]]
