"""The table of a hang as text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hung_runs import Rank, trained, waiting, write_run

from timing_logger import read_timings
from timing_logger.analysis import RankEnd, RunEnd, hang
from timing_logger.report import hang_text
from timing_logger.report.hang import _inside, _of_interest, _state
from timing_logger.results.run_end import StuckGroup, StuckMessage


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


MESSAGE = StuckMessage(
    rank=1, operation="RECV", group="world", seq=None, thread="main", iteration=None, peer=2,
    has_partner=False, since_s=6.0, hangs=True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("message", "inside"),
    [
        (MESSAGE, ("RECV with rank 2", 6.0)),
        (replace(MESSAGE, peer=None, since_s=None), ("RECV", 0.0)),
        (replace(MESSAGE, rank=2), ("", None)),
    ],
)
def test_of_a_rank_in_a_message_it_is_said_with_whom(
    message: StuckMessage, inside: tuple[str, float | None]
) -> None:
    rank: Any = SimpleNamespace(rank=1, busy_with="", busy_s=None)
    assert _inside(RunEnd(state="hang", messages=(message,)), rank) == inside


def test_of_what_a_rank_is_in_the_longest_is_said_also_if_that_is_no_hang_yet() -> None:
    younger = StuckGroup(**NAMED, inside=(1,), inside_s={1: 4.0})
    rank: Any = SimpleNamespace(rank=1, busy_with="", busy_s=None)
    assert _inside(RunEnd(state="running", younger=(younger,)), rank) == ("ALLREDUCE 9 of world", 4.0)
    end = RunEnd(state="hang", younger=(younger,), messages=(replace(MESSAGE, since_s=9.0),))
    assert _inside(end, rank) == ("RECV with rank 2", 9.0)


def last_of(rank: int, **further: Any) -> RankEnd:
    usual: dict[str, Any] = {
        "incarnation": 1, "closed": False, "gone": False, "killed": False, "silent_s": 0.0, "operation": "",
        "layer_name": "", "iteration": None, "status": "", "ended_s": None, "busy_with": "", "busy_s": None,
        "idle_stack": (), "signal": "",
    }  # fmt: skip
    return RankEnd(rank=rank, **{**usual, **further})


@pytest.mark.parametrize(
    ("last", "state"),
    [
        ({"closed": True, "gone": True}, "closed"), ({"gone": True}, "gone"), ({"killed": True}, "gone"),
        ({"closed": None, "killed": True}, "gone"), ({"closed": None}, ""), ({}, "not closed"),
    ],
)  # fmt: skip
def test_a_rank_is_closed_or_gone_or_not_closed_as_far_as_is_known(last: dict[str, Any], state: str) -> None:
    assert _state(last_of(0, **last)) == state


def test_ranks_that_explain_a_hang_are_among_the_few_that_are_shown_in_their_order() -> None:
    ranks = tuple(map(last_of, range(9)))
    end = RunEnd(state="hang", culprits=(8,), circle=(6,), gone=(4,), ranks=ranks)
    assert [rank.rank for rank in _of_interest(end, 5)] == [0, 1, 4, 6, 8]


def test_of_a_run_of_which_nothing_is_known_just_that_is_said() -> None:
    ranks = (last_of(0),)
    assert hang_text(RunEnd(state="unknown", ranks=ranks), 200) == (
        "No sidecar tells whether the run came to its end, and no row is open.\n"
    )
    assert hang_text(RunEnd(state="unknown", ranks=ranks, sentences=("So it is.",)), 200) == "So it is.\n"


@pytest.mark.parametrize(("everything", "n_shown"), [(False, 20), (True, 21)])
def test_of_many_ranks_some_are_shown_unless_all_are_asked_for(everything: bool, n_shown: int) -> None:
    end = RunEnd(state="unfinished", ranks=tuple(map(last_of, range(21))))
    text = hang_text(end, 100, everything=everything)
    assert sum(line[:1].isdigit() for line in text.splitlines()) == n_shown
    assert ("are left out" in text) is not everything


def test_where_a_rank_that_records_nothing_stands_is_said() -> None:
    stack = ("train.py:7 step", "train.py:90 main")
    end = RunEnd(state="unfinished", ranks=(last_of(0, idle_stack=stack), last_of(1)))
    assert [line.split()[-1] for line in hang_text(end, 100).splitlines()[-2:]] == ["step", "-"]
