"""A row of a call that was still open is replaced by the one that tells its end, whoever reads the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from timing_files import content, record, write_sidecar, write_timing_file

from timing_logger import read_timings
from timing_logger.analysis import summarize
from timing_logger.live.watcher import Watcher
from timing_logger.reading.content import without_replaced
from timing_logger.reading.converting import convert
from timing_logger.reading.csv_lines import parse_timings
from timing_logger.schema.record import Record


def inflight(start_s: float = 5.0, operation: str = "ALLREDUCE", **fields: Any) -> Record:
    return record(operation, start_s, None, **{"seq": 7, "status": "inflight", **fields})


def ended(start_s: float = 5.0, operation: str = "ALLREDUCE", **fields: Any) -> Record:
    return record(operation, start_s, 90_000.0, **{"seq": 7, **fields})


def statuses_left(*rows: Record) -> list[str]:
    return list(without_replaced(parse_timings(content(rows)).frame)["status"])


def test_a_call_that_ended_after_all_has_one_row() -> None:
    assert statuses_left(record(), inflight(), record(start_s=6.0), ended()) == ["ok", "ok", "ok"]


def test_a_call_that_failed_after_all_has_one_row() -> None:
    assert statuses_left(inflight(), ended(status="error:RuntimeError")) == ["error:RuntimeError"]


def test_a_call_that_never_ended_stays() -> None:
    assert statuses_left(ended(4.0), inflight()) == ["ok", "inflight"]


@pytest.mark.parametrize("other", [{"operation": "BARRIER"}, {"group": "pair"}, {"start_s": 5.000001}])
def test_another_call_replaces_nothing(other: dict[str, Any]) -> None:
    assert statuses_left(inflight(), ended(**other)) == ["inflight", "ok"]


def test_a_call_that_ended_while_it_was_told_of_as_open_has_one_row() -> None:
    assert statuses_left(ended(), inflight()) == ["ok"]


def test_on_a_device_a_row_that_came_before_is_of_another_call() -> None:
    assert statuses_left(ended(clock="device"), inflight(clock="device")) == ["ok", "inflight"]


def test_many_open_calls_are_sorted_out_in_one_go() -> None:
    calls = [row(float(i)) for i in range(1, 1000) for row in (inflight, ended)]
    assert set(statuses_left(*calls)) == {"ok"}


def test_another_thread_may_have_seen_the_end() -> None:
    assert statuses_left(inflight(thread="MainThread"), ended(thread="gloo")) == ["ok"]


def test_a_receive_from_any_source_has_its_number_when_it_ended() -> None:
    unknown, known = {"seq": None, "peer": None}, {"seq": 3, "peer": 2}
    assert statuses_left(inflight(operation="RECV", **unknown), ended(operation="RECV", **known)) == ["ok"]


def test_on_a_device_the_start_is_placed_anew() -> None:
    on_device = {"clock": "device", "iteration": 4}
    assert statuses_left(inflight(**on_device), ended(5.4, **on_device)) == ["ok"]
    other = {**on_device, "seq": 8}
    assert statuses_left(inflight(**on_device), ended(5.4, **other)) == ["inflight", "ok"]
    other = {**on_device, "iteration": 5}
    assert statuses_left(inflight(**on_device), ended(5.4, **other)) == ["inflight", "ok"]


def test_a_table_without_open_calls_is_returned_as_it_is() -> None:
    frame = parse_timings(content([record(), ended()])).frame
    assert without_replaced(frame) is frame
    nothing = parse_timings(content([])).frame
    assert without_replaced(nothing) is nothing


# -- whoever reads ---------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of each rank a row, a call that ended after all, and one that did not."""
    folder = tmp_path / "timing"
    rows = [record(seq=6), inflight(), ended(), inflight(100.0, "BARRIER", seq=8)]
    for rank in range(2):
        write_sidecar(write_timing_file(folder, rank, rows), closed=True)
    return folder


def expected(table: pd.DataFrame) -> None:
    assert list(table["status"]) == ["ok", "ok", "inflight"] * 2
    assert list(table["operation"]) == ["ALLREDUCE", "ALLREDUCE", "BARRIER"] * 2


@pytest.mark.parametrize("engine", ["pandas", "pyarrow"])
@pytest.mark.filterwarnings("error")
def test_every_engine_drops_what_was_replaced_and_counts_what_was_written(folder: Path, engine: Any) -> None:
    table = read_timings(folder, engine=engine)
    expected(table)
    assert [file["rows"] for file in table.attrs["files"]] == [4, 4]


@pytest.mark.parametrize("engine", ["pandas", "pyarrow"])
def test_it_is_dropped_also_where_its_status_is_not_asked_for(folder: Path, engine: Any) -> None:
    table = read_timings(folder, engine=engine, columns=["operation", "elapsed_ms"])
    assert list(table) == ["operation", "elapsed_ms", "rank", "incarnation"]
    assert len(table) == 6


@pytest.mark.slow("what is converted is what is read, which has none")
@pytest.mark.filterwarnings("error")
def test_parquet_has_none_and_still_counts_what_was_written(folder: Path, tmp_path: Path) -> None:
    converted = convert(folder, "parquet", tmp_path / "parquet")
    assert converted.rows == 6
    table = read_timings(tmp_path / "parquet")
    expected(table)
    assert [file["rows"] for file in table.attrs["files"]] == [4, 4]


@pytest.mark.slow("the table that is summed has the call once, which is quick")
def test_sums_count_the_call_once(folder: Path) -> None:
    counts = summarize(read_timings(folder)).set_index(["operation", "rank"])["count"]
    assert counts["ALLREDUCE", 0] == 2


@pytest.mark.slow("what replaces a row is quick, and that whoever watches sees later rows")
def test_whoever_watches_sees_it_replaced_when_it_ends(tmp_path: Path) -> None:
    path = write_timing_file(tmp_path, 0, [record(seq=6), inflight()])
    write_sidecar(path, closed=False)
    watcher = Watcher(tmp_path, window_s=1e9)
    assert watcher.snapshot().ranks[0].unfinished == 1
    with path.open("ab") as file:
        file.write(content([ended()]).split(b"\n", 1)[1])
    assert watcher.snapshot().ranks[0].unfinished == 0
