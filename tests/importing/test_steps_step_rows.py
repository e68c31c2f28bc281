"""The rows of a step of a log: where they begin, and which of them has the work."""

from __future__ import annotations

from typing import Any

import pytest

from timing_logger.importing.step_columns import StepColumns, StepOfRank
from timing_logger.importing.steps import RowsOfRank, origin_ns
from timing_logger.schema.record import Record

S = 10**9
BEFORE_S = 10**6
PARTS = StepColumns(seconds="s", parts=["data", "forward"])


def step(lasts_s: int = 5, parts_s: tuple[int, ...] = (), **fields: Any) -> StepOfRank:
    plain = StepOfRank(7, -1, -1, -1.0, lasts_s * S, tuple(one * S for one in parts_s))
    return plain._replace(**fields)


def rows_of(*steps: StepOfRank, columns: StepColumns, wall_offset_s: int = 0) -> list[Record]:
    rows = RowsOfRank(columns, wall_offset_s * S)
    return [Record(*row) for one in steps for row in rows.of(one)]


def spans_s(rows: list[Record]) -> list[tuple[str, float, float]]:
    return [(row.operation, row.start_ns / S, (row.end_ns or 0) / S) for row in rows]


@pytest.mark.parametrize(
    ("first_ns", "origin_s"),
    [
        (1_900_000_000 * S, 1_900_000_000 - BEFORE_S), (1_900_000_000 * S + 999, 1_900_000_000 - BEFORE_S),
        ((BEFORE_S + 1) * S, 1), (BEFORE_S * S, 0), (5, 0),
    ],
)  # fmt: skip
def test_the_axis_begins_in_a_whole_second_long_before_the_first_instant_but_not_before_1970(
    first_ns: int, origin_s: int
) -> None:
    assert origin_ns(first_ns) == origin_s * S


def test_a_step_is_one_row_without_what_is_not_known() -> None:
    assert rows_of(step(), columns=StepColumns(seconds="s")) == [
        Record(
            7, None, "", "STEP", "", None, BEFORE_S * S, (BEFORE_S + 5) * S, "host", "", None, None, None,
            "MainThread", "ok",
        )
    ]  # fmt: skip


def test_without_instants_a_step_begins_where_the_last_one_ended() -> None:
    rows = rows_of(step(5), step(2), columns=StepColumns(seconds="s"))
    assert spans_s(rows) == [("STEP", BEFORE_S, BEFORE_S + 5), ("STEP", BEFORE_S + 5, BEFORE_S + 7)]


@pytest.mark.parametrize(("is_start", "began_s"), [(False, 15), (True, 20)])
def test_the_instant_of_a_step_is_its_end_unless_it_is_its_start(is_start: bool, began_s: int) -> None:
    columns = StepColumns(seconds="s", time="at", time_is_start=is_start)
    rows = rows_of(step(5, end_ns=120 * S), columns=columns, wall_offset_s=100)
    assert spans_s(rows) == [("STEP", began_s, began_s + 5)]


def test_no_step_begins_before_the_axis_does() -> None:
    columns = StepColumns(seconds="s", time="at")
    assert spans_s(rows_of(step(5, end_ns=0), columns=columns)) == [("STEP", 0, 5)]
    assert spans_s(rows_of(step(5, end_ns=99 * S), columns=columns, wall_offset_s=100)) == [("STEP", 0, 5)]


def test_a_step_without_an_instant_follows_the_one_before_with_one() -> None:
    columns = StepColumns(seconds="s", time="at")
    rows = rows_of(step(5, end_ns=20 * S), step(2), columns=columns)
    assert spans_s(rows) == [("STEP", 15, 20), ("STEP", 20, 22)]


def test_parts_follow_each_other_and_then_comes_the_rest() -> None:
    rows = rows_of(step(9, (2, 3), end_ns=20 * S), columns=PARTS)
    assert spans_s(rows) == [("data", 11, 13), ("forward", 13, 16)]
    with_rest = StepColumns(seconds="s", parts=["data", "forward"], rest="other")
    rows = rows_of(step(9, (2, 3), end_ns=20 * S), columns=with_rest)
    assert spans_s(rows) == [("data", 11, 13), ("forward", 13, 16), ("other", 16, 20)]


@pytest.mark.parametrize(
    ("work", "works"), [(4096.0, [4096.0, None]), (0.0, [0.0, None]), (-1.0, [None] * 2)]
)
def test_only_the_first_row_of_a_step_has_its_work(work: float, works: list[float | None]) -> None:
    assert [row.work for row in rows_of(step(9, (2, 3), work=work), columns=PARTS)] == works


@pytest.mark.parametrize(("epoch", "stated"), [(0, 0), (3, 3), (-1, None)])
def test_all_rows_of_a_step_have_its_epoch_and_number(epoch: int, stated: int | None) -> None:
    rows = rows_of(step(9, (2, 3), epoch=epoch), columns=PARTS)
    assert [(row.iteration, row.epoch) for row in rows] == [(7, stated)] * 2
