"""Stretches of an account are chosen and put together, each with the name of its operation."""

from __future__ import annotations

import numpy as np
import pytest
from account_rows import barrier, row, table

from timing_logger.analysis.accounting.lines import NO_RANK
from timing_logger.analysis.accounting.part import WHAT, LineStretches, map_account
from timing_logger.analysis.accounting.run import account_of, blocked_stretches
from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.tables import opened


def stretches(operations: list[str], codes: list[int], rank: int = 0) -> LineStretches:
    n = len(codes)
    number, at_s = np.full(n, rank), np.arange(n) / 2.0
    return LineStretches(
        number, number + 1, at_s, at_s + 0.5, number % 5, np.array(codes), number, operations
    )


def names(one: LineStretches) -> list[str]:
    return [one.operations[code] if code >= 0 else "" for code in one.operation.tolist()]


def test_put_together_each_keeps_its_operation_and_those_of_none_have_none() -> None:
    joined = LineStretches.joined(
        [
            stretches(["load", "step"], [1, -1, 0], 3),
            LineStretches.none(),
            stretches(["save", "step"], [0, 1, -1], 4),
        ]
    )
    assert joined.operations == ["load", "step", "save"]
    assert names(joined) == ["step", "", "load", "save", "step", ""]
    assert joined.rank.tolist() == [3, 3, 3, 4, 4, 4]
    assert joined.incarnation.tolist() == [4, 4, 4, 5, 5, 5]
    assert joined.end_s.tolist() == [0.5, 1.0, 1.5] * 2


def test_those_wanted_are_chosen_by_a_mask_or_by_position() -> None:
    several = stretches(["load", "step"], [1, -1, 0])
    for wanted in (np.array([True, False, True]), np.array([0, 2])):
        chosen = several.only(wanted)
        assert names(chosen) == ["step", "load"]
        assert chosen.start_s.tolist() == [0.0, 1.0]


def test_what_processes_did_while_they_were_blocked_is_told_on_their_own_clocks() -> None:
    rows = table(
        *barrier([0, 2], 3), row(0, "RECV", 4, 5, peer=1, group_size=2, seq=1),
        row(0, "BARRIER", 0, 1, thread="other", group="other", group_size=2),
    )  # fmt: skip
    ahead_s = np.where(rows["rank"] == 1, -100.0, 0.0)
    for name in ("start_counter", "end_counter"):
        rows[name] -= ahead_s
    run = account_of([map_account(opened(rows, COLUMNS_OF["account"]))], [])
    found = blocked_stretches(run.lines, run.rows.axis, run.blocked)
    told = found.stretches
    assert [WHAT[what] for what in told.what] == ["waiting", "transfer", "not matched", "transfer"]
    assert told.rank.tolist() == [0, 0, 0, 1]
    assert names(told) == ["BARRIER", "BARRIER", "RECV", "BARRIER"]
    assert told.waited_for.tolist() == [1, NO_RANK, NO_RANK, NO_RANK]
    assert told.start_s == pytest.approx([0.0, 0.002, 0.004, 100.002])
    assert told.end_s == pytest.approx([0.002, 0.003, 0.005, 100.003])
    assert found.ahead_s == pytest.approx([0, 0, 0, -100])
    assert found.axis.tolist() == [0] * 4
