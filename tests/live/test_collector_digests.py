"""What a digest says of the processes of a folder since the one before."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sidecars import states
from timing_files import EPOCH_S, content, record, write_timing_file

from timing_logger.errors import NotATimingFileError, NoTimingFilesError
from timing_logger.live.collector import Collector, _process
from timing_logger.live.digest import ProcessPlace
from timing_logger.live.tails import Tail, no_rows
from timing_logger.schema.timing_files import TimingFile

STEPS = [
    record("FORWARD", start_s=1.0, elapsed_ms=500.0, iteration=3),
    record("ALLREDUCE", start_s=1.5, elapsed_ms=250.0, iteration=3, epoch=1),
    record("FORWARD", start_s=2.0, elapsed_ms=500.0, iteration=4, epoch=1),
    record("FORWARD", start_s=3.0, elapsed_ms=500.0, iteration=5, epoch=2),
]


def process_in(folder: Path, **sidecar: Any) -> ProcessPlace:
    """Return the only process of a folder, whose sidecar says this, after the first look."""
    if sidecar:
        states(folder / "timing-rank0.csv", **sidecar)
    (process,) = Collector(folder).digest().processes
    return process


def test_of_the_steps_that_are_over_it_says_how_many_and_when_they_were(tmp_path: Path) -> None:
    write_timing_file(tmp_path, 0, STEPS, incarnation=1)
    process = process_in(tmp_path)
    assert process.key == (0, 1, 0)
    assert (process.n_rows, process.n_iterations) == (3, 2)
    assert (process.since_s, process.until_s) == (1.0, 2.5)
    assert process.wall_offset_s == pytest.approx(EPOCH_S, abs=1e-5)
    assert (process.iteration, process.epoch, process.written, process.counted) == (5, 2, 4, False)


def test_of_a_file_that_was_closed_all_steps_are_over(tmp_path: Path) -> None:
    write_timing_file(tmp_path, 0, STEPS)
    process = process_in(tmp_path, closed=True)
    assert (process.n_rows, process.n_iterations, process.until_s) == (4, 3, 3.5)


def test_digests_are_numbered_and_each_says_what_came_since_the_one_before(tmp_path: Path) -> None:
    file = write_timing_file(tmp_path, 0, STEPS)
    collector = Collector(tmp_path, "node1")
    first = collector.digest()
    with file.open("ab") as added:
        added.write(content([record("FORWARD", start_s=4.0, iteration=6)]).split(b"\n", 1)[1])
    second, third = collector.digest(), collector.digest()
    assert [(one.source, one.number) for one in (first, second, third)] == [("node1", at) for at in range(3)]
    assert [one.processes[0].n_rows for one in (first, second, third)] == [3, 1, 0]
    assert [len(one.rows) for one in (first, second, third)] == [3, 1, 0]
    assert [one.processes[0].written for one in (first, second, third)] == [4, 5, 5]
    assert math.isnan(third.processes[0].since_s)
    assert math.isnan(third.processes[0].until_s)
    assert math.isnan(third.processes[0].wall_offset_s)


@pytest.mark.parametrize(
    ("counters", "n_read", "written"),
    [
        ({}, 4, 4), ({"written": 3}, 4, 4), ({"written": 9}, 4, 9), ({}, 0, None), ({"written": 0}, 0, 0),
        ({"written": 7}, 0, 7),
    ],
)  # fmt: skip
def test_as_many_rows_are_written_as_the_sidecar_says_or_were_read(
    counters: dict[str, int], n_read: int, written: int | None
) -> None:
    process = _process(Tail(TimingFile(0), n_read=n_read, sidecar={"counters": counters}), no_rows())
    assert (process.written, process.n_rows, process.counted) == (written, 0, True)


@pytest.mark.parametrize(("closed", "unfinished"), [(False, 2), (True, 1)])
def test_calls_are_open_by_what_the_rows_say_or_the_sidecar_of_a_file_that_is_not_closed(
    closed: bool, unfinished: int
) -> None:
    row = pd.DataFrame({"status": ["ok", "inflight"]})
    sidecar = {"closed": closed, "open_calls": [{"operation": "BARRIER"}] * 2}
    assert _process(Tail(TimingFile(0), rows=row, sidecar=sidecar), no_rows()).unfinished == unfinished


def test_only_processes_that_are_wanted_are_followed(tmp_path: Path) -> None:
    for rank in (0, 1):
        states(write_timing_file(tmp_path, rank, STEPS), host=f"node{rank}")
    collector = Collector(tmp_path, is_wanted=lambda sidecar: sidecar["host"] == "node1")
    digest = collector.digest()
    assert [process.rank for process in digest.processes] == [1]
    assert set(digest.rows.numbers["rank"].tolist()) == {1}


def test_without_a_timing_file_or_with_one_of_another_header_there_is_no_digest(tmp_path: Path) -> None:
    with pytest.raises(NoTimingFilesError):
        Collector(tmp_path).digest()
    (tmp_path / "timing-rank0.csv").write_text("a,b\n1,2\n")
    with pytest.raises(NotATimingFileError, match=r"folder: .* is not a timing file"):
        Collector(tmp_path).digest()
