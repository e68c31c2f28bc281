"""How ranks stood while a run stood still, of last words and rows that are made by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from timing_logger.analysis.hangs.sidecar_state import (
    LastWords,
    Moment,
    Progress,
    Standstill,
    end_of_last_stall,
    end_of_longest_stall,
    rows_then,
    went_on_after,
)
from timing_logger.schema.record import NS_PER_S
from timing_logger.schema.sidecar import OpenCallInfo

CALL = OpenCallInfo("MainThread", "SEND", "", None, None, "world", 4, 3, 1, None, 10 * NS_PER_S)


def ns(at_s: float) -> int:
    return round(at_s * NS_PER_S)


def stall(since_s: float, until_s: float, *calls: OpenCallInfo) -> Standstill:
    return Standstill(ns(since_s), ns(until_s), calls, {("world", 4): Progress(2, 1)}, ("at",))


def words(last: Standstill | None, longest: Standstill | None = None, **fields: Any) -> LastWords:
    """Return the last words of a rank whose clock is Unix time."""
    plain = {"closed": True, "updated_ns": ns(1000), "offset_ns": 0, "last_stall": last}
    return LastWords(**{"rank": 0, "incarnation": 1, **plain, "longest_stall": longest or last, **fields})


def last(*ranks: LastWords) -> Moment:
    found = end_of_last_stall(dict(enumerate(ranks)))
    assert found is not None
    return found


def longest(*ranks: LastWords) -> Moment:
    found = end_of_longest_stall(dict(enumerate(ranks)))
    assert found is not None
    return found


# -- which moment ----------------------------------------------------------------------------------------


def test_without_a_standstill_or_a_clock_there_is_no_moment() -> None:
    for one in (words(None), words(stall(10, 90), offset_ns=None)):
        assert end_of_last_stall({0: one}) is None
        assert end_of_longest_stall({0: one}) is None


def test_the_last_moment_is_the_latest_end_and_the_longest_that_of_the_longest() -> None:
    ranks = (words(stall(10, 90)), words(stall(100, 120)))
    assert (last(*ranks).since_unix_s, last(*ranks).at_unix_s) == (100, 120)
    assert (longest(*ranks).since_unix_s, longest(*ranks).at_unix_s) == (10, 90)


def test_each_looks_at_its_own_standstill_of_a_rank() -> None:
    one = words(stall(100, 120), stall(10, 90))
    assert (last(one).at_unix_s, longest(one).at_unix_s) == (120, 90)


def test_a_rank_that_was_in_a_call_tells_before_one_that_was_in_none() -> None:
    ranks = (words(stall(10, 90, CALL)), words(stall(5, 120)))
    assert (last(*ranks).at_unix_s, longest(*ranks).at_unix_s) == (90, 90)


def test_the_moment_is_in_unix_time() -> None:
    found = last(words(stall(10, 90), offset_ns=ns(500)))
    assert (found.since_unix_s, found.at_unix_s) == (510, 590)


# -- who stood still at it -------------------------------------------------------------------------------


def stood_still(other: LastWords, at_s: float = 90.0) -> bool:
    """Tell whether a rank stood still when another one, that was in a call, ended its standstill."""
    return 1 in last(words(stall(10, at_s, CALL)), other).calls


@pytest.mark.parametrize(
    ("since_s", "until_s", "still"),
    [(20, 90, True), (20, 89.0, True), (20, 88.9, False), (89.9, 200, True), (90, 200, False)],
)
def test_ranks_stand_still_together_whose_standstills_end_within_a_second(
    since_s: float, until_s: float, still: bool
) -> None:
    assert stood_still(words(stall(since_s, until_s))) is still


def test_of_two_standstills_of_a_rank_in_that_second_the_later_one_is_told() -> None:
    other = words(stall(89.5, 90), stall(20, 89.25, CALL))
    assert last(words(stall(10, 90, CALL)), other).calls[1] == (90, ())


@pytest.mark.parametrize(
    ("until_s", "fields", "still"),
    [
        (60.0, {"updated_ns": ns(64.9)}, True),
        (59.9, {"updated_ns": ns(64)}, False),
        (60.0, {"updated_ns": ns(65)}, False),
        (60.0, {"updated_ns": ns(64), "closed": False}, False),
        (60.0, {"updated_ns": ns(64), "closed": False, "killed": True}, True),
        (60.0, {"updated_ns": None}, False),
    ],
    ids=["ended with it", "too long ago", "lived on", "did not end", "killed", "unknown"],
)
def test_a_rank_that_ended_with_its_standstill_stood_still_until_others_noticed(
    until_s: float, fields: dict[str, Any], still: bool
) -> None:
    assert stood_still(words(stall(20, until_s), **fields)) is still


def test_the_longest_standstill_counts_where_the_last_was_at_another_time() -> None:
    assert stood_still(words(stall(300, 320), stall(20, 90)))
    assert not stood_still(words(stall(300, 320), stall(20, 40)))
    assert not stood_still(words(stall(20, 40), stall(20, 41)))


def test_a_rank_that_stood_still_is_told_with_its_calls_until_the_moment_at_most() -> None:
    found = last(words(stall(10, 90, CALL)), words(stall(20, 200)), words(stall(20, 89.5)), words(None))
    assert found.calls == {0: (90, (CALL,)), 1: (90, ()), 2: (89.5, ())}


# -- what the sidecars would have said -------------------------------------------------------------------


def test_of_a_rank_that_stood_still_its_standstill_tells() -> None:
    one = words(
        stall(10, 90, CALL), signal="SIGTERM", killed=True, alive_ns=5, idle_stack=("later",), host="node0",
        progress={}, progressed_counter_ns=ns(900),
    )  # fmt: skip
    assert last(one).words[0] == replace(
        one, closed=False, killed=False, alive_ns=None, updated_ns=ns(90), signal="", open_calls=(CALL,),
        progress={("world", 4): Progress(2, 1)}, progressed_counter_ns=ns(10), idle_stack=("at",),
    )  # fmt: skip


def test_a_rank_that_stood_still_for_longer_was_seen_at_the_moment() -> None:
    found = last(words(stall(10, 90, CALL)), words(stall(20, 200)), words(stall(20, 89.5)))
    assert [one.updated_ns for one in found.words.values()] == [ns(90), ns(90), ns(89.5)]


def test_a_rank_that_went_on_then_was_in_no_call_and_had_not_ended() -> None:
    other = words(
        None, killed=True, signal="SIGTERM", open_calls=(CALL,), idle_stack=("later",), updated_ns=ns(90.1)
    )
    assert last(words(stall(10, 90, CALL)), other).words[1] == replace(
        other, closed=False, killed=False, updated_ns=ns(90), signal="", open_calls=(), idle_stack=()
    )


@pytest.mark.parametrize("updated_ns", [ns(90), ns(80), None])
def test_a_rank_that_had_ended_by_then_is_as_it_ended(updated_ns: int | None) -> None:
    other = words(None, killed=True, signal="SIGTERM", updated_ns=updated_ns)
    assert last(words(stall(10, 90, CALL)), other).words[1] == other


# -- rows ------------------------------------------------------------------------------------------------


def row(
    operation: str = "SEND", began_s: float = 10.0, ended_s: float = 11.0, **fields: Any
) -> dict[str, Any]:
    plain = {"rank": 0, "status": "ok", "start_counter": began_s, "end_counter": ended_s}
    return {**plain, "operation": operation, "began_s": began_s, "ended_s": ended_s, **fields}


def rows(*of: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(list(of))


MOMENT = Moment(90.0, 10.0, {}, {0: (80.0, (CALL,))})


@pytest.mark.parametrize(
    ("later", "went_on"),
    [
        (row(ended_s=90.1), True),
        (row(ended_s=90.0), False),
        (row("FORWARD", ended_s=95.0), False),
        (row(ended_s=95.0, status="error:E"), False),
    ],
    ids=["later", "at it", "own work", "failed"],
)
def test_a_run_went_on_that_communicated_well_after_the_moment(later: dict[str, Any], went_on: bool) -> None:
    assert went_on_after(rows(row(), later), MOMENT) is went_on


def then(*of: dict[str, Any]) -> pd.DataFrame:
    return rows_then(rows(*of), MOMENT)


@pytest.mark.parametrize(("rank", "cut_s"), [(0, 80.0), (1, 90.0)])
def test_rows_that_began_after_a_rank_stood_still_are_left_out(rank: int, cut_s: float) -> None:
    found = then(
        row("A", cut_s + 0.1, 99.0, rank=rank), row("B", cut_s, 99.0, rank=rank),
        row("C", math.nan, 20.0, rank=rank),
    )  # fmt: skip
    assert found["operation"].tolist() == ["B", "C"]
    assert found.index.tolist() == [0, 1]


@pytest.mark.parametrize(("rank", "cut_s"), [(0, 80.0), (1, 90.0)])
def test_calls_that_ended_after_a_rank_stood_still_are_open(rank: int, cut_s: float) -> None:
    left_out = row("A", 200.0, 201.0, rank=rank)
    found = then(left_out, row("B", 20.0, cut_s, rank=rank), row("C", 20.0, cut_s + 0.1, rank=rank))
    assert found["status"].tolist() == ["ok", "inflight"]
    assert found["ended_s"].isna().tolist() == found["end_counter"].isna().tolist() == [False, True]
    assert found["began_s"].tolist() == [20.0, 20.0]


@pytest.mark.parametrize(
    ("changes", "is_open"),
    [
        ({}, True),
        ({"start_counter": 10.0 + 5e-7}, True),
        ({"start_counter": 10.0 - 5e-7}, True),
        ({"start_counter": 10.0 + 2e-6}, False),
        ({"start_counter": 10.0 - 2e-6}, False),
        ({"operation": "RECV"}, False),
        ({"rank": 1}, False),
    ],
)
def test_calls_that_were_open_in_the_standstill_are_open_by_operation_and_start(
    changes: dict[str, Any], is_open: bool
) -> None:
    assert (then({**row(ended_s=11.0), **changes})["status"] == "inflight").tolist() == [is_open]


def test_an_open_call_without_a_start_is_no_row() -> None:
    moment = replace(MOMENT, calls={0: (80.0, (CALL._replace(start_counter_ns=None), CALL))})
    found = rows_then(rows(row(), row("SEND", 12.0, 13.0)), moment)
    assert found["status"].tolist() == ["inflight", "ok"]
