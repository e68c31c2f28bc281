"""The table of a hang as text."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hung_runs import Rank, trained, waiting, write_run

from timing_logger import read_timings
from timing_logger.analysis import RunEnd, hang
from timing_logger.analysis.hangs.stuck_groups import StuckGroup
from timing_logger.report import hang_text
from timing_logger.report.hang_text import _inside


def test_of_each_rank_it_is_said_what_it_recorded_last_and_of_which_iteration(tmp_path: Path) -> None:
    silent = Rank([], progressed_s=0.0)
    write_run(tmp_path, waiting(), Rank(trained(9), progressed_s=9.0), silent)
    lines = hang_text(hang(read_timings(tmp_path)), 120).splitlines()
    of_rank = {line.split()[0]: line for line in lines if line[:1].isdigit()}
    assert "ALLREDUCE of iteration 8" in of_rank["1"]
    assert "of iteration" not in of_rank["2"]


NAMED = {"group": "world", "group_size": 2, "seq": 9, "operation": "ALLREDUCE"}
NAMELESS = {"group": "", "group_size": 2, "seq": None, "operation": ""}


@pytest.mark.parametrize(
    ("group", "inside"),
    [
        ({**NAMED, "inside": (1,), "inside_s": {1: 4.0}}, ("ALLREDUCE 9 of world", 4.0)),
        ({**NAMELESS, "inside": (1,), "inside_s": {1: None}}, ("a collective", 0.0)),
        ({**NAMED, "inside": (0,), "inside_s": {0: 4.0}}, ("", None)),
    ],
)
def test_of_a_rank_it_is_said_which_collective_it_is_in(
    group: dict[str, Any], inside: tuple[str, float]
) -> None:
    its = StuckGroup(**group)
    rank: Any = SimpleNamespace(rank=1, busy_with="", busy_s=None)
    assert _inside(RunEnd(state="hang", groups=(its,)), rank) == inside
    busy: Any = SimpleNamespace(rank=1, busy_with="CHECKPOINT", busy_s=9.0)
    assert _inside(RunEnd(state="hang", younger=(its,)), busy) == ("CHECKPOINT", 9.0)
