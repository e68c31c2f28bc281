"""The nodes of a run's program, and the line that each of them is on."""

from __future__ import annotations

import numpy as np
import pytest
from account_rows import Row, barrier, row, table
from played_runs import played

from timing_logger.analysis.accounting.nodes import ISSUE, WAIT


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
        *barrier([1, 1], 2), row(0, "BARRIER", 1, 2, thread="other", **ALONE),
        row(0, "IALLREDUCE", 3, 9, thread="other", **ALONE, seq=1),
    ]  # fmt: skip
    assert issuing_threads(*rows) == ["MainThread", "other", "other"]


def test_in_a_process_without_calls_an_operation_is_begun_by_its_own_line() -> None:
    assert issuing_threads(row(0, "IALLREDUCE", 3, 9, thread="hook", **ALONE)) == ["hook"]


def test_of_calls_that_begin_together_the_longest_has_the_time() -> None:
    program, _ = played(table(row(0, "BARRIER", 1, 2), row(0, "ALLREDUCE", 1, 3)))
    waits = program.kind == WAIT
    assert program.row[waits].tolist() == [1, 0]
    assert program.end_s[waits].tolist() == [0.003, 0.003]
    assert program.own_s[waits].tolist() == [0.0, 0.0]
