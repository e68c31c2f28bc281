"""Which lines a process has, which of them tells what it did, and what each row is for its line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from account_rows import row, table

from timing_logger.analysis.accounting.lines import (
    LINE,
    PROCESS,
    AccountLines,
    Roles,
    first_numbers,
    is_kept,
    is_set_up,
    joined_lines,
    lines_of,
)
from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.tables import opened

Row = dict[str, Any]


def found(*rows: Row) -> tuple[AccountLines, Roles]:
    """Find the lines of rows, of which each rank is a process."""
    frame = opened(table(*[{"incarnation": 1, **one} for one in rows]), COLUMNS_OF["account"])
    return lines_of(frame, frame["rank"].to_numpy().astype(np.int64))


def told(lines: AccountLines) -> dict[str, tuple[bool, bool]]:
    """Return of each thread whether its line is the main one, and whether it has an account."""
    each = zip(lines.is_main.tolist(), lines.has_account.tolist(), strict=True)
    return dict(zip(lines.thread, each, strict=True))


def test_the_line_that_was_blocked_is_the_main_one_however_long_another_worked() -> None:
    lines, _ = found(row(0, "BARRIER", 0, 1), row(0, "work", 0, 90, thread="loader"))
    assert told(lines) == {"MainThread": (True, True), "loader": (False, False)}


def test_of_several_that_were_blocked_the_busiest_is_the_main_one_and_all_have_accounts() -> None:
    lines, _ = found(
        row(0, "BARRIER", 0, 2), row(0, "work", 2, 4), row(0, "BARRIER", 0, 3, thread="io", group="io")
    )
    assert told(lines) == {"MainThread": (True, True), "io": (False, True)}


def test_without_a_blocked_line_the_one_that_worked_longest_is_the_main_one() -> None:
    lines, _ = found(row(0, "work", 0, 2), row(0, "work", 0, 3, thread="loader"))
    assert told(lines) == {"MainThread": (False, False), "loader": (True, True)}


def test_each_process_has_a_main_line() -> None:
    lines, roles = found(row(1, "work", 0, 2), row(0, "work", 0, 2), row(1, "BARRIER", 2, 3))
    assert lines.rank[lines.is_main].tolist() == [0, 1]
    assert lines.process[roles.line].tolist() == [1, 0, 1]


def test_a_process_lasts_from_its_first_row_to_the_end_of_its_last_in_any_line() -> None:
    lines, _ = found(
        row(0, "work", 3, 4), row(0, "work", 1, 2, thread="a"), row(0, "work", 5, 9, thread="b"),
        row(1, "work", 2, 30),
    )  # fmt: skip
    of_0 = lines.process == 0
    assert lines.begin_s[of_0].tolist() == [0.001] * 3
    assert lines.end_s[of_0].tolist() == [0.009] * 3
    assert lines.wall_ms.tolist() == pytest.approx([8.0] * 3 + [28.0])


def test_what_only_the_backend_measured_does_not_make_a_process_longer() -> None:
    lines, _ = found(row(0, "BACKEND", 0, 50), row(0, "work", 1, 2))
    assert (lines.begin_s.tolist(), lines.end_s.tolist()) == ([0.001], [0.002])


@pytest.mark.parametrize(
    ("operation", "works", "holds"),
    [
        ("forward", True, False), ("BARRIER", False, True), ("SEND", False, True), ("WAIT", False, True),
        ("PROBE", False, True), ("MPI_INIT", False, True), ("IALLREDUCE", False, False),
        ("BACKEND", False, False),
    ],
)  # fmt: skip
def test_a_row_works_or_holds_its_line_or_neither(operation: str, works: bool, holds: bool) -> None:
    _, roles = found(row(0, operation, 0, 1))
    assert [bool(role[0]) for role in roles[1:]] == [works, holds, holds]


@pytest.mark.parametrize(
    ("operation", "kept"),
    [("IALLREDUCE", True), ("BARRIER", True), ("WAIT", True), ("MPI_INIT", True), ("forward", False)],
)
def test_rows_are_kept_that_tell_who_waited_for_whom(operation: str, kept: bool) -> None:
    assert is_kept(operation) is kept


def test_rows_of_the_set_up_are_told_by_their_operations() -> None:
    rows = [row(0, name, 0, 1) for name in ("MPI_INIT", "BARRIER", "NEW_GROUP", "forward")]
    assert is_set_up(opened(table(*rows), COLUMNS_OF["account"])).tolist() == [True, False, True, False]


def test_lines_of_several_parts_are_numbered_throughout() -> None:
    two, _ = found(row(0, "work", 0, 2), row(1, "work", 0, 3), row(1, "BARRIER", 0, 3, thread="io"))
    one, _ = found(row(0, "work", 0, 9))
    assert {name: first.tolist() for name, first in first_numbers([two, one, two]).items()} == {
        PROCESS: [0, 2, 3], LINE: [0, 3, 4],
    }  # fmt: skip
    joined = joined_lines([two, one, two])
    assert joined.process.tolist() == [*two.process, 2, *(two.process + 3)]
    assert joined.thread == [*two.thread, "MainThread", *two.thread]
    assert joined.end_s.tolist() == [*two.end_s, 0.009, *two.end_s]
