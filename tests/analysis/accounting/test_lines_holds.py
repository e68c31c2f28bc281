"""A line is held by one row at a time: rows that overlap, or cover the same time, take turns."""

from __future__ import annotations

import math

import numpy as np
import pytest

from timing_logger.analysis.accounting.lines import apart, holds_of

Hold = tuple[int, float, float]
"""The row, and from when to when it holds its line, in seconds."""


def holds(
    *spans_s: tuple[float, float], line: list[int] | None = None, until_s: list[float] | None = None
) -> list[Hold]:
    start_s, end_s = (np.array(column) for column in zip(*spans_s, strict=True))
    lines = np.array(line or [0] * len(spans_s))
    until = None if until_s is None else np.array(until_s)
    found = holds_of(lines, np.ones(len(lines), np.bool_), start_s, end_s, until)
    return list(zip(found.row.tolist(), found.start_s.tolist(), found.end_s.tolist(), strict=True))


def test_rows_hold_their_line_in_the_order_of_time() -> None:
    assert holds((3.0, 4.0), (1.0, 2.0)) == [(1, 1, 2), (0, 3, 4)]


def test_a_row_that_begins_before_the_one_before_it_ends_holds_the_line_from_then_on() -> None:
    assert holds((1.0, 3.0), (2.0, 5.0), (4.0, 6.0)) == [(0, 1, 3), (1, 3, 5), (2, 5, 6)]


def test_a_row_inside_of_another_holds_nothing_and_gives_nothing_back() -> None:
    assert holds((1.0, 6.0), (2.0, 3.0), (4.0, 7.0)) == [(0, 1, 6), (2, 6, 7)]


def test_rows_of_different_lines_do_not_hold_each_other_up() -> None:
    found = holds((1.0, 6.0), (2.0, 3.0), (2.0, 5.0), (2.5, 7.0), line=[0, 1, 1, 1])
    assert found == [(0, 1, 6), (2, 2, 5), (3, 5, 7)]


@pytest.mark.parametrize("until_s", [[1.5, 2.5, math.nan], [math.nan, 1.5, math.nan]])
def test_of_rows_that_cover_the_same_time_the_one_that_waited_longest_holds_the_line(
    until_s: list[float],
) -> None:
    assert holds((1.0, 3.0), (1.0, 3.0), (1.0, 3.0), until_s=until_s) == [(1, 1, 3)]


def test_of_rows_that_begin_together_the_longest_holds_the_line() -> None:
    assert holds((1.0, 2.0), (1.0, 3.0)) == [(1, 1, 3)]


def test_a_row_without_a_length_or_of_unknown_length_holds_nothing() -> None:
    assert holds((1.0, 1.0), (1.0, math.nan), (2.0, 3.0)) == [(2, 2, 3)]


def test_intervals_of_no_line_are_apart() -> None:
    none = np.zeros(0)
    assert [len(values) for values in apart(np.zeros(0, np.int64), none, none)] == [0, 0]


def test_rows_that_overlap_do_not_hold_up_the_line_after_theirs() -> None:
    found = holds((1.0, 6.0), (2.0, 3.0), (2.0, 5.0), line=[0, 0, 1])
    assert found == [(0, 1, 6), (2, 2, 5)]
