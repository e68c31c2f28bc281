"""Each instant of a thread is charged to the innermost of the rows that cover it."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from seeds import seeds

from timing_logger.analysis.step_times.process_steps import exclusive_ms

Interval = tuple[float, float, int]
"""Start and end in ms, and the lane."""


def alone_ms(*rows: Interval) -> list[float]:
    """Return the time of each row without that of the rows inside it."""
    start_ms, end_ms, lane = (np.array(column) for column in zip(*rows, strict=True))
    start_s, end_s = start_ms / 1e3, end_ms / 1e3
    return exclusive_ms(1e3 * (end_s - start_s), start_s, end_s, lane).tolist()


@pytest.mark.parametrize(
    ("rows", "found_ms"),
    [
        ([(0, 10, 0), (2, 5, 0), (3, 4, 0)], [7, 2, 1]),
        ([(2, 5, 0), (0, 10, 0), (6, 8, 0)], [3, 5, 2]),
        ([(0, 4, 0), (0, 10, 0)], [4, 6]),
        ([(0, 10, 0), (6, 10, 0)], [6, 4]),
        ([(0, 10, 0), (10, 12, 0)], [10, 2]),
        ([(0, 10, 0), (2, 5, 1), (3, 5, 1)], [10, 1, 2]),
        ([(0, 10, 0), (2, 2, 0), (3, 5, 0)], [8, 0, 2]),
    ],
    ids=["nested", "two inside", "begin together", "end together", "in turn", "two lanes", "empty"],
)
def test_a_row_has_the_time_in_which_no_row_of_its_lane_is_further_in(
    rows: list[Interval], found_ms: list[float]
) -> None:
    assert alone_ms(*rows) == pytest.approx(found_ms)


@pytest.mark.parametrize(
    ("rows", "found_ms"),
    [
        ([(0, 5, 0), (4, 8, 0)], [4, 4]),
        ([(0, 20, 0), (2, 8, 0), (6, 10, 0)], [12, 4, 4]),
        ([(0, 9, 0), (1, 8, 0), (7, 12, 0), (1, 5, 3), (2, 3, 3)], [1, 6, 5, 3, 1]),
        ([(1, 5, 0), (2, 3, 0), (0, 5, 2), (4, 8, 2)], [3, 1, 4, 4]),
        ([(0, 5, 0), (4, 8, 0), (10, 12, 0)], [4, 4, 2]),
    ],
    ids=["two", "inside of another", "two into one", "another lane", "one apart"],
)
def test_a_row_that_crosses_into_a_later_one_ends_where_that_begins(
    rows: list[Interval], found_ms: list[float]
) -> None:
    assert alone_ms(*rows) == pytest.approx(found_ms)


def test_rows_of_which_an_instant_is_unknown_keep_their_time_and_take_none() -> None:
    starts_s, ends_s = np.array([0.0, math.nan, 0.002]), np.array([0.010, 0.004, math.nan])
    found = exclusive_ms(np.array([10.0, 3.0, 2.0]), starts_s, ends_s, np.zeros(3, np.int64))
    assert found == pytest.approx([10.0, 3.0, 2.0])


def test_no_row_has_less_than_no_time() -> None:
    starts_s, ends_s = np.array([0.0, 0.001]), np.array([0.010, 0.009])
    assert exclusive_ms(np.array([5.0, 8.0]), starts_s, ends_s, np.zeros(2, np.int64)) == pytest.approx(
        [0, 8]
    )


@pytest.mark.parametrize("seed", seeds(3))
def test_rows_inside_each_other_have_the_time_that_each_instant_says(seed: int) -> None:
    rng = random.Random(seed)
    rows: list[Interval] = []
    for lane in range(3):
        edges = sorted(rng.sample(range(60), 24))
        open_ones: list[int] = []
        for at in edges:
            if open_ones and rng.random() < 0.5:
                rows.append((open_ones.pop(), at, lane))
            else:
                open_ones.append(at)
        rows += [(begin, 60 + i, lane) for i, begin in enumerate(reversed(open_ones))]
    expected = [0] * len(rows)
    for lane in range(3):
        for ms in range(80):
            covering = [i for i, (begin, end, its) in enumerate(rows) if its == lane and begin <= ms < end]
            if covering:
                expected[max(covering, key=lambda i: rows[i][0])] += 1
    assert alone_ms(*rows) == pytest.approx(expected)
