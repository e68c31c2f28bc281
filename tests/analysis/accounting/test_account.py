"""The account of a run: every instant of every rank is told, and waits lead to ranks that did something."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from account_rows import Row, barrier, random_run, row, table, what_at
from hypothesis import given
from hypothesis import strategies as st
from seeds import few_examples

from timing_logger.analysis import account
from timing_logger.analysis.accounting.account import ACCOUNT

Parts = dict[tuple[str, Any], float]


def parts_of_each(timings: pd.DataFrame) -> dict[int, Parts]:
    """Return what each rank did, by the operation or the rank that it waited for, in ms."""
    told: dict[int, Parts] = {}
    for one in account(timings).to_dict("records"):
        if one["is_main"]:
            waits = one["what"] == "waiting"
            by = (one["waited_for"] if pd.notna(one["waited_for"]) else None) if waits else one["operation"]
            its = told.setdefault(one["rank"], {})
            its[one["what"], by] = its.get((one["what"], by), 0.0) + round(one["ms"], 6)
    return told


def parts(timings: pd.DataFrame, rank: int) -> Parts:
    """Return what a rank did."""
    return parts_of_each(timings).get(rank, {})


def test_a_rank_waits_for_the_last_to_arrive_and_the_rest_is_transfer() -> None:
    timings = table(*barrier([0, 2, 5], 6), row(2, "forward", 0, 5))
    told = parts_of_each(timings)
    assert told[0] == {("waiting", 2): 5.0, ("transfer", "BARRIER"): 1.0}
    assert told[1] == {("waiting", 2): 3.0, ("transfer", "BARRIER"): 1.0}
    assert told[2] == {("own work", "forward"): 5.0, ("transfer", "BARRIER"): 1.0}


def test_who_receives_in_a_sendrecv_waits_for_whom_it_receives_from() -> None:
    """Ranks 0, 1 and 2 pass on in a ring; rank 2 sends late, for which rank 0 alone waits."""
    spans = enumerate([(0, 6), (0, 1), (5, 6)])
    ring = [row(r, "SENDRECV", *span, peer=(r + 1) % 3, group_size=3) for r, span in spans]
    timings = table(*ring, row(2, "forward", 0, 5))
    told = parts_of_each(timings)
    assert told[0] == {("waiting", 2): 5.0, ("transfer", "SENDRECV"): 1.0}
    assert told[1] == {("transfer", "SENDRECV"): 1.0}
    assert told[2] == {("own work", "forward"): 5.0, ("transfer", "SENDRECV"): 1.0}


def test_who_waits_for_one_that_waits_itself_waits_for_whom_that_one_waits() -> None:
    message = {"peer": 0, "group_size": 3}
    timings = table(
        row(0, "work", 0, 10),
        row(0, "SEND", 10, 10.1, **{**message, "peer": 1}),
        row(1, "RECV", 0, 10.5, **message),
        row(1, "work", 10.5, 12),
        *[row(r, "BARRIER", begin, 12.5, group_size=3) for r, begin in ((0, 10.1), (1, 12), (2, 1))],
        row(2, "work", 0, 1),
    )
    told = parts(timings, 2)
    assert told["waiting", 0] == pytest.approx(9.0)
    assert told["waiting", None] == pytest.approx(0.5)  # for the message on its way
    assert told["waiting", 1] == pytest.approx(1.5)


def test_each_instant_is_of_the_innermost_row_and_what_no_row_covers_is_not_timed() -> None:
    timings = table(row(0, "outer", 0, 10), row(0, "inner", 2, 5), row(0, "late", 12, 14))
    assert parts(timings, 0) == {
        ("own work", "outer"): 7.0, ("own work", "inner"): 3.0, ("own work", "late"): 2.0,
        ("not timed", ""): 2.0,
    }  # fmt: skip


def test_a_row_around_a_call_does_not_own_the_time_in_it() -> None:
    timings = table(row(0, "backward", 0, 10), *barrier([4, 6], 7))
    assert parts(timings, 0) == {
        ("own work", "backward"): 7.0, ("waiting", 1): 2.0, ("transfer", "BARRIER"): 1.0
    }  # fmt: skip


def test_a_thread_that_is_blocked_does_nothing_else() -> None:
    timings = table(*barrier([4, 6], 8), row(0, "hook", 5, 7))
    assert parts(timings, 0) == {("waiting", 1): 2.0, ("transfer", "BARRIER"): 2.0}


def test_of_a_call_that_waits_for_several_operations_the_one_that_took_longest_counts() -> None:
    def rank(number: int, *issues_ms: float) -> list[Row]:
        of = {"group_size": 2}
        issues = [row(number, "IALLREDUCE", t, 20, seq=k, **of) for k, t in enumerate(issues_ms)]
        return [*issues, *(row(number, "WAIT", 10, 20, seq=k, **of) for k in range(len(issues_ms)))]

    timings = table(*rank(0, 1, 2, 3), *rank(1, 1, 15, 3))
    assert parts(timings, 0)["waiting", 1] == 5.0


@pytest.mark.slow("work that ended well is quick")
def test_work_that_ended_in_an_exception_took_its_time() -> None:
    timings = table(row(0, "load", 0, 8, status="error:TimeoutError"), row(0, "load", 8, 9))
    assert parts(timings, 0) == {("own work", "load"): 9.0}


def test_who_sends_to_a_root_waits_for_it_where_rows_show_that_senders_are_held() -> None:
    def gather(seq: int, *spans_ms: tuple[float, float]) -> list[Row]:
        of = {"group_size": 3, "seq": seq, "peer": 0}
        return [row(rank, "GATHER", *span, **of) for rank, span in enumerate(spans_ms)]

    free = gather(0, (0, 6), (0, 1), (5, 6))  # rank 1 leaves before rank 2 has come
    held = gather(1, (20, 21), (10, 21), (19.5, 21))
    assert parts(table(*free, *held), 1)["waiting", 0] == 10.0
    assert ("waiting", 0) not in parts(table(*free, *gather(1, (20, 21), (10, 11), (19.5, 21))), 1)


def test_background_operations_are_waited_for_once_however_many_there_are() -> None:
    def rank(number: int, issue_ms: float) -> list[Row]:
        buckets = [row(number, "IALLREDUCE", issue_ms + k, 30 + k, seq=k, group_size=2) for k in range(4)]
        waits = [row(number, "WAIT", 28 if k == 0 else 29 + k, 30 + k, seq=k, group_size=2) for k in range(4)]
        return [row(number, "backward", 0, 28), *buckets, *waits]

    told = parts_of_each(table(*rank(0, 3), *rank(1, 20)))
    for number in (0, 1):
        assert told[number] == {("own work", "backward"): 28.0, ("transfer", "WAIT"): 5.0}


def test_a_thread_that_serves_another_passes_on_for_whom_it_waits() -> None:
    def rank(number: int, issue_ms: float) -> list[Row]:
        of = {"group_size": 3, "thread": "reducer"}
        served = [row(number, "ALLREDUCE", issue_ms, 20, **of), row(number, "ALLREDUCE", 20, 21, seq=1, **of)]
        waits = [row(number, "WAIT", 12, 20, group_size=3), row(number, "WAIT", 20, 21, seq=1, group_size=3)]
        return [row(number, "backward", 0, 12), *served, *waits]

    timings = table(*rank(0, 2), *rank(1, 4), *rank(2, 18))
    assert parts(timings, 0) == {
        ("own work", "backward"): 12.0, ("waiting", 2): 6.0, ("transfer", "WAIT"): 3.0
    }  # fmt: skip


def rooted(operation: str, spans: Sequence[tuple[float, float]]) -> list[Row]:
    n = len(spans)
    return [row(r, operation, a, b, group_size=n, peer=0) for r, (a, b) in enumerate(spans)]


def test_in_a_broadcast_the_others_wait_for_the_root_and_the_root_for_nobody() -> None:
    timings = table(*rooted("BCAST", [(5, 6), (1, 7), (9, 10)]))
    told = parts_of_each(timings)
    assert told[1] == {("waiting", 0): 4.0, ("transfer", "BCAST"): 2.0}
    assert told[0]["transfer", "BCAST"] == 1.0
    assert ("waiting", 2) not in told[0]


def test_in_a_gather_the_root_waits_for_the_last_and_the_others_for_nobody() -> None:
    timings = table(*rooted("GATHER", [(0, 9), (3, 3.5), (8, 8.5)]))
    told = parts_of_each(timings)
    assert told[0] == {("waiting", 2): 8.0, ("transfer", "GATHER"): 1.0}
    assert told[1]["transfer", "GATHER"] == 0.5


def test_a_broadcast_that_nobody_leaves_before_all_have_come_holds_everybody() -> None:
    timings = table(*rooted("BCAST", [(1, 9), (2, 9), (8, 9)]))
    assert parts(timings, 0) == {("waiting", 2): 7.0, ("transfer", "BCAST"): 1.0}


@pytest.mark.slow("as a broadcast that nobody leaves early, which is quick")
def test_a_write_of_a_file_that_nobody_leaves_early_holds_everybody() -> None:
    timings = table(*rooted("FILE_WRITE_ALL", [(1, 9), (2, 9), (8, 9)]))
    assert parts(timings, 0) == {("waiting", 2): 7.0, ("transfer", "FILE_WRITE_ALL"): 1.0}


@pytest.mark.slow("a rarer operation; what nobody leaves early is quick, of broadcasts")
def test_a_write_of_a_file_that_some_leave_early_is_a_transfer() -> None:
    timings = table(*rooted("FILE_WRITE_ALL", [(1, 3), (2, 4), (8, 9)]))
    assert parts(timings, 0)["transfer", "FILE_WRITE_ALL"] == 2.0


def sent(begin_ms: float, end_ms: float, received: tuple[float, float]) -> pd.DataFrame:
    of = {"group_size": 2}
    return table(
        row(0, "SEND", begin_ms, end_ms, peer=1, **of), row(1, "RECV", *received, peer=0, **of),
        row(0, "work", 0, begin_ms), row(1, "work", 0, received[0]),
    )  # fmt: skip


def test_a_receiver_waits_for_the_send_to_begin() -> None:
    assert parts(sent(6, 6.1, (2, 7)), 1)["waiting", 0] == 4.0


def test_a_sender_that_is_held_until_its_receiver_comes_waits_for_it() -> None:
    assert parts(sent(1, 9, (8, 9)), 0) == {
        ("own work", "work"): 1.0, ("waiting", 1): 7.0, ("transfer", "SEND"): 1.0
    }  # fmt: skip


def test_a_sender_that_leaves_before_its_receiver_comes_waits_for_nobody() -> None:
    assert ("waiting", 1) not in parts(sent(1, 2, (8, 9)), 0)


def test_where_a_rank_has_no_row_it_is_unknown_who_was_waited_for_after_the_last_that_has_one() -> None:
    timings = table(*barrier([0, 5], 6, group_size=3))
    assert parts(timings, 0) == {("waiting", 1): 5.0, ("not matched", "BARRIER"): 1.0}


def test_what_no_other_rank_has_a_row_of_is_not_matched() -> None:
    timings = table(*barrier([0], 6, group_size=3), row(1, "work", 0, 6))
    assert parts(timings, 0) == {("not matched", "BARRIER"): 6.0}


@pytest.mark.slow("what no other rank has a row of is quick")
def test_a_rank_of_which_nothing_but_its_own_part_of_a_collective_is_known_is_accounted_for() -> None:
    timings = table(row(0, "work", 0, 4), row(0, "BARRIER", 4, 6, group_size=3))
    assert parts(timings, 0) == {("own work", "work"): 4.0, ("not matched", "BARRIER"): 2.0}


def test_no_rows_have_no_account() -> None:
    assert account(table(row(0, "work", 0, 4)).iloc[:0]).empty


@pytest.mark.slow("a rarer run; clocks that were never compared are quick")
def test_a_rank_whose_clock_nothing_compares_keeps_its_time() -> None:
    timings = table(
        row(0, "work", 0, 4),
        row(1, "work", 0, 4),
        row(1, "BARRIER", 4, 6, group_size=3),
        *(row(r, "BCAST", 6, 7, group="pair", group_size=2, peer=0) for r in (0, 1)),
        uncertainty_s=np.nan,
    )
    told = parts_of_each(timings)
    assert told[0]["own work", "work"] == 4.0
    assert told[1] == {
        ("own work", "work"): 4.0, ("not matched", "BARRIER"): 2.0, ("not matched", "BCAST"): 1.0
    }  # fmt: skip


def test_clocks_that_were_never_compared_or_are_not_as_stated_change_nothing() -> None:
    rows = [
        line
        for step in range(3)
        for line in [
            row(0, "work", 20 * step, 20 * step + 3),
            row(1, "work", 20 * step, 20 * step + 9),
            row(2, "work", 20 * step, 20 * step + 1),
            *(
                row(r, "BARRIER", 20 * step + begin, 20 * step + 10, seq=step, group_size=3)
                for r, begin in enumerate((3, 9, 1))
            ),
        ]
    ]
    aligned = table(*rows)
    apart = table(*rows, uncertainty_s=np.nan)
    for column in ("start_s", "end_s", "start_counter", "end_counter"):
        apart[column] += apart["rank"].map({0: 0.0, 1: 7200.0, 2: -86400.0})
    misstated = apart.assign(clock_uncertainty_s=0.0)
    told, told_apart, told_misstated = map(parts_of_each, (aligned, apart, misstated))
    for rank in range(3):
        assert told_apart[rank] == pytest.approx(told[rank])
        assert told_misstated[rank] == pytest.approx(told[rank])


def test_two_threads_with_a_communicator_each_have_an_account_each() -> None:
    other = {"thread": "io", "group": "io", "group_size": 2}
    timings = table(*barrier([0, 5], 6), row(0, "BARRIER", 1, 9, **other), row(1, "BARRIER", 2, 9, **other))
    told = account(timings)
    is_main = told[told["rank"] == 0].groupby("thread")["is_main"].all()
    assert is_main.to_dict() == {"MainThread": False, "io": True}  # it was blocked longer
    for _, of_line in told.groupby(["rank", "thread"]):
        assert of_line["share"].sum() == pytest.approx(1.0)


# -- against the definition, instant by instant ----------------------------------------------------------


@few_examples(2)
@given(st.integers(0, 10_000))
def test_at_every_instant_the_account_says_what_the_definition_says(seed: int) -> None:
    timings, n = random_run(seed)
    rows, told = timings.to_dict("records"), parts_of_each(timings)
    for rank in range(n):
        mine = timings[timings["rank"] == rank]
        if mine.empty:
            continue
        edges = np.unique(timings[["start_s", "end_s"]].to_numpy())
        edges = edges[(edges >= mine["start_s"].min()) & (edges <= mine["end_s"].max())]
        expected: dict[tuple[str, Any], float] = {}
        for begin, end in pairwise(edges.tolist()):
            kind = what_at(rows, rank, (begin + end) / 2)
            expected[kind] = expected.get(kind, 0.0) + 1e3 * (end - begin)
        assert told[rank] == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow("what each part is at every instant is quick")
@few_examples(3)
@given(st.integers(0, 10_000))
def test_the_parts_of_each_rank_sum_to_its_wall_time(seed: int) -> None:
    timings, _ = random_run(seed)
    told = account(timings)
    for rank, mine in timings.groupby("rank"):
        wall_ms = 1e3 * (mine["end_s"].max() - mine["start_s"].min())
        assert told[told["rank"] == rank]["ms"].sum() == pytest.approx(wall_ms)
        assert told[told["rank"] == rank]["share"].sum() == pytest.approx(1.0)


def test_from_parts_of_some_processes_each_the_account_is_that_of_all_rows() -> None:
    rows = table(
        *barrier([1, 4, 6], 8), row(0, "load", 0, 1), row(1, "forward", 0, 3), row(2, "forward", 0, 6),
        row(2, "BARRIER", 1, 3, thread="other", group="other", group_size=2),
    )  # fmt: skip
    parts = [ACCOUNT.map(rows[rows["rank"].isin(ranks)]) for ranks in ([0], [1, 2])]
    found = ACCOUNT.reduce(parts)
    pd.testing.assert_frame_equal(found, account(rows))
    work = found[found["what"] == "own work"]
    assert [(one.rank, one.operation, round(one.ms, 6)) for one in work.itertuples()] == [
        (0, "load", 1.0), (1, "forward", 3.0), (2, "forward", 6.0)
    ]  # fmt: skip
