"""What hosts counted is shown on tracks of a trace, as Perfetto itself understands them."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path

import pandas as pd
import pytest
from timing_files import record, write_sidecar, write_timing_file
from trace_processor import Compiled, TraceProcessor, compiled

from timing_logger import read_host_counters, read_timings
from timing_logger.cli import main
from timing_logger.report.trace import write_trace
from timing_logger.schema.host_counters import HEADER, NAMES

VALUES = """
    select process.name, process_counter_track.name, ts, value
    from counter join process_counter_track on track_id = process_counter_track.id join process using (upid)
    where process_counter_track.name not like 'in flight%' order by upid, process_counter_track.name, ts
"""
START_S = record().start_ns / 1e9


def line(start_s: float, seconds: float, **counters: object) -> str:
    cells = [f"{start_s:.3f}", f"{start_s + seconds:.3f}", *(str(counters.get(name, "")) for name in NAMES)]
    return ",".join(cells) + "\n"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks, of which one waits for a processor for a tenth of two seconds, at 1,500 MHz."""
    folder = tmp_path_factory.mktemp("counted") / "logs"
    for rank in range(2):
        write_sidecar(write_timing_file(folder, rank, [record()]), world_size=2)
        waited_us = 200_000 * rank
        text = HEADER + line(START_S, 2.0, main_run_queue_wait_us=waited_us, cpu_mhz=1500, major_faults=0)
        (folder / f"host-rank{rank}.csv").write_text(text)
    return folder


@pytest.fixture(scope="module")
def tables(logs: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The timings, and what the hosts counted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return read_timings(logs), read_host_counters(logs)


@functools.cache
def processor() -> Compiled:
    return compiled()


def values(trace: Path) -> list[tuple[object, ...]]:
    return TraceProcessor(processor(), trace.read_bytes()).query(VALUES)


EXPECTED = [
    ("rank 0", "cpu_mhz value", 2_000_000_000, 1500.0),
    ("rank 1", "cpu_mhz value", 2_000_000_000, 1500.0),
    ("rank 1", "main_run_queue_wait_us/s value", 0, 100_000.0),
    ("rank 1", "main_run_queue_wait_us/s value", 2_000_000_000, 0.0),
]


def test_what_grows_is_shown_per_second_a_level_where_it_was_read_and_what_is_0_not_at_all(
    tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    timings, host = tables
    counts = write_trace(timings, tmp_path / "trace.json", host=host)
    assert values(tmp_path / "trace.json") == EXPECTED
    without = write_trace(timings, tmp_path / "without.json")
    assert counts.counters == without.counters + len(EXPECTED)
    assert values(tmp_path / "without.json") == []


def test_the_command_shows_them_without_being_asked(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", str(logs), "-o", str(tmp_path / "trace.json")]) == 0
    assert values(tmp_path / "trace.json") == EXPECTED


def test_counters_from_before_the_chosen_rows_are_not_shown(
    tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    timings, host = tables
    earlier = host.assign(start_s=host["start_s"] - 10, end_s=host["end_s"] - 10)
    write_trace(timings, tmp_path / "trace.json", host=earlier)
    assert values(tmp_path / "trace.json") == []
