"""Facts on thousands of files cost nothing where a table is copied; a benchmark writes runs of many ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from many_ranks import SLOW_RANK, write_many_ranks
from timing_files import record, write_sidecar, write_timing_file

from timing_logger import read_timings
from timing_logger.analysis import stragglers
from timing_logger.reading.named_ranks import select


def test_copies_of_a_table_share_what_is_known_of_its_files(tmp_path: Path) -> None:
    for rank in range(2):
        write_sidecar(write_timing_file(tmp_path, rank, [record()]))
    timings = read_timings(tmp_path)
    selected = select(timings, ranks={1})
    for table in (timings, selected):
        files = table.attrs["files"]
        assert table.copy().attrs["files"] is files
        assert table["rank"].attrs["files"] is files
        assert isinstance(files, list)
        assert json.loads(json.dumps(files[0]))["rank"] == files[0]["rank"]
    assert [file["rank"] for file in selected.attrs["files"]] == [1]


@pytest.mark.slow("what a benchmark writes; that a slow rank is named by such rows is quick elsewhere")
@pytest.mark.filterwarnings("error")
def test_of_many_written_ranks_the_slow_one_is_named(tmp_path: Path) -> None:
    write_many_ranks(tmp_path, n_ranks=SLOW_RANK + 3, n_rows=100)
    timings = read_timings(tmp_path)
    assert (timings.groupby("rank").size() == 100).all()
    assert timings["clock_uncertainty_s"].max() < 1e-4
    verdict = stragglers(timings)
    assert (verdict.verdict, verdict.ranks) == ("rank", (SLOW_RANK,))
    assert verdict.operation == "FORWARD"
