"""The table of a hang as text."""

from __future__ import annotations

from pathlib import Path

from hung_runs import Rank, trained, waiting, write_run

from timing_logger import read_timings
from timing_logger.analysis import hang
from timing_logger.report import hang_text


def test_of_each_rank_it_is_said_what_it_recorded_last_and_of_which_iteration(tmp_path: Path) -> None:
    silent = Rank([], progressed_s=0.0)
    write_run(tmp_path, waiting(), Rank(trained(9), progressed_s=9.0), silent)
    lines = hang_text(hang(read_timings(tmp_path)), 120).splitlines()
    of_rank = {line.split()[0]: line for line in lines if line[:1].isdigit()}
    assert "ALLREDUCE of iteration 8" in of_rank["1"]
    assert "of iteration" not in of_rank["2"]
