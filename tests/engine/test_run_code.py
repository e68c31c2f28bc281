"""The code of some ranks of a run in files is that of the whole table."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from timing_files import record, write_timing_file

from timing_logger import read_stack_samples, read_timings
from timing_logger.analysis import sampled_code
from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.engine.rows import Query
from timing_logger.engine.run import code_in_files
from timing_logger.reading.timings import timing_files
from timing_logger.schema.timing_files import HEADER

pytestmark = pytest.mark.filterwarnings("ignore:.*no sidecar")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for rank in range(3):
        rows = [
            record(operation="DATA", start_ns=10**9, end_ns=2 * 10**9, iteration=0),
            record(operation="FORWARD", start_ns=3 * 10**9, end_ns=4 * 10**9, iteration=0),
        ]
        write_timing_file(tmp_path, rank, rows)
        (tmp_path / f"stacks-rank{rank}.csv").write_text(
            HEADER + "1.5,load,a/b.py,3,\n2.5,pause,a/b.py,4,\n3.5,forward,a/c.py,5,\n3.6,forward,a/c.py,5,\n"
        )
    return tmp_path


def in_files(folder: Path, *ranks: int) -> pd.DataFrame:
    return code_in_files(ranks, Query(timing_files(folder, columns=set(COLUMNS_OF["account"]))))


def test_it_is_what_the_table_of_these_ranks_gives(logs: Path) -> None:
    whole = sampled_code(read_timings(logs), read_stack_samples(logs))
    assert whole["operation"].tolist() == ["FORWARD", "", "DATA"] * 3
    expected = whole[whole["rank"] != 1].reset_index(drop=True)
    assert_frame_equal(in_files(logs, 0, 2), expected)


def test_of_ranks_without_samples_no_row_is_read_again(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (logs / "stacks-rank1.csv").unlink()
    monkeypatch.setattr("timing_logger.engine.run.run", None)
    assert in_files(logs, 1).empty
    assert in_files(logs).empty
