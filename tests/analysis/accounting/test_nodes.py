"""The nodes of a run's program, and the line that each of them is on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from account_rows import Row, barrier, row, table
from played_runs import played

from timing_logger.analysis.accounting.nodes import ISSUE, WAIT, Nodes, _before_any_wait


def test_an_operation_in_the_background_is_begun_by_the_line_that_waits_for_it() -> None:
    """A hook issues two; the main thread waits for one, and a thread that serves it for the other."""
    rows = []
    for rank in range(2):
        for seq, waiter in enumerate(["MainThread", "server"]):
            of = {"group_size": 2, "seq": seq}
            rows.append(row(rank, "IALLREDUCE", 1.0 + seq, 9.0, thread="hook", **of))
            rows.append(row(rank, "WAIT", 5.0, 9.0, thread=waiter, **of))
    program, lines = played(table(*rows))
    threads = [lines.thread[program.line[node]] for node in np.flatnonzero(program.kind == ISSUE)]
    assert sorted(threads) == ["MainThread", "MainThread", "server", "server"]


def issuing_threads(*rows: Row, rank: int = 0) -> list[str]:
    """Return the threads on which a rank begins operations, in the order of the threads and of time."""
    program, lines = played(table(*rows))
    begun = program.line[program.kind == ISSUE]
    return [lines.thread[line] for line in begun[lines.rank[begun] == rank]]


ALONE = {"group": "alone", "group_size": 2}
"""A group of which the other rank has no rows."""


@pytest.mark.parametrize("rank", [0, 1])
def test_one_that_nothing_waits_for_is_begun_by_the_line_of_its_process_that_has_calls(rank: int) -> None:
    rows = [*barrier([1, 1], 2), row(rank, "IALLREDUCE", 3, 9, thread="hook", **ALONE)]
    assert issuing_threads(*rows, rank=rank) == ["MainThread"] * 2


def test_one_that_nothing_waits_for_is_begun_by_its_own_line_if_that_has_calls() -> None:
    rows = [
        row(0, "BARRIER", 1, 2, thread="other", **ALONE), *barrier([1, 1], 2),
        row(0, "IALLREDUCE", 3, 9, thread="other", **ALONE, seq=1),
    ]  # fmt: skip
    assert issuing_threads(*rows) == ["MainThread", "other", "other"]


@pytest.mark.parametrize("rank", [0, 1])
def test_in_a_process_without_calls_an_operation_is_begun_by_its_own_line(rank: int) -> None:
    calls = row(1 - rank, "BARRIER", 1, 2, thread="main", **ALONE)
    assert issuing_threads(calls, row(rank, "IALLREDUCE", 3, 9, thread="hook", **ALONE), rank=rank) == [
        "hook"
    ]


@pytest.mark.parametrize("rank", [0, 1])
def test_one_that_all_ranks_begin_and_none_waits_for_is_begun_by_the_line_that_has_calls(rank: int) -> None:
    its = {"thread": "hook", "group_size": 2, "seq": 1}
    rows = [*barrier([1, 1], 2), *(row(of, "IALLREDUCE", 3, 9, **its) for of in range(2))]
    assert issuing_threads(*rows, rank=rank) == ["MainThread"] * 2


def test_of_calls_that_begin_together_the_longest_has_the_time() -> None:
    program, _ = played(table(row(0, "BARRIER", 1, 2), row(0, "ALLREDUCE", 1, 3)))
    waits = program.kind == WAIT
    assert program.row[waits].tolist() == [1, 0]
    assert program.end_s[waits].tolist() == [0.003, 0.003]
    assert program.own_s[waits].tolist() == [0.0, 0.0]


def test_of_calls_that_cover_the_same_time_the_one_that_waited_longest_has_it() -> None:
    """Of three receives at once one waits until 3 ms, one until 7, and of one it is unknown."""
    pair = {other: {"group": f"ranks 0,{other}", "group_size": 2} for other in (1, 2, 3)}
    receives = [row(0, "RECV", 1, 9, peer=1, **pair[other]) for other in (3, 1, 2)]
    sends = [row(rank, "SEND", at, at + 1, peer=0, **pair[rank]) for rank, at in ((1, 3), (2, 7))]
    program, _ = played(table(*receives, *sends))
    assert program.row[(program.kind == WAIT) & (program.line == 0)].tolist() == [2, 1, 0]


def test_a_call_that_took_no_time_is_a_node_too() -> None:
    program, _ = played(table(row(0, "BARRIER", 1, 1), row(0, "BARRIER", 2, 3, seq=1)))
    assert program.row[program.kind == WAIT].tolist() == [0, 1]


def test_a_call_of_which_no_start_is_known_begins_nothing() -> None:
    program, _ = played(table(row(0, "BARRIER", math.nan, math.nan), row(0, "BARRIER", 1, 2, seq=1)))
    assert program.row[program.kind == ISSUE].tolist() == [1]


def before_any_wait(line: int, *at_s: float) -> list[float]:
    """Line 0 waits from 1 to 3 s and from 5 to 7 s, and line 1 from 2 to 6 s."""
    spans = np.array([(1.0, 3.0), (5.0, 7.0), (2.0, 6.0)])
    none = np.zeros(3, np.int64)
    waits = Nodes(np.array([0, 0, 1]), none, none, spans[:, 0], spans[:, 1])
    found: list[float] = _before_any_wait(np.full(len(at_s), line), np.array(at_s), waits).tolist()
    return found


def test_what_begins_while_its_line_waits_begins_when_the_wait_does() -> None:
    assert before_any_wait(0, 1.0, 2.0, 2.9, 6.0) == [1, 1, 1, 5]
    assert before_any_wait(1, 2.0, 5.9) == [2, 2]


def test_what_begins_between_waits_of_its_line_begins_then() -> None:
    assert before_any_wait(0, 0.5, 3.0, 4.0, 7.0, 8.0) == [0.5, 3, 4, 7, 8]
    assert before_any_wait(1, 0.5, 1.5, 6.5) == [0.5, 1.5, 6.5]


def test_what_begins_less_than_a_us_before_a_wait_ends_begins_after_it() -> None:
    assert before_any_wait(0, 3.0 - 0.9e-6, 3.0 - 1.1e-6) == [3.0 - 0.9e-6, 1]
