"""The last value of a group up to a limit: what a line that joins a run comes after."""

from __future__ import annotations

import numpy as np

from timing_logger.analysis.accounting.program import _last_up_to


def last(of_group: list[int], limit: list[float]) -> list[int]:
    values = np.array([1.0, 2.0, 2.0, 5.0, 0.5])
    return _last_up_to(np.array([0, 0, 0, 0, 2]), values, np.array(of_group), np.array(limit)).tolist()


def test_it_is_the_last_of_its_group_that_is_not_above_the_limit() -> None:
    assert last([0, 0, 0, 2, 0], [1.5, 2.0, 9.0, 0.5, 1.0]) == [0, 2, 3, 4, 0]


def test_there_is_none_where_all_are_above_the_limit_or_the_group_has_none() -> None:
    assert last([0, 1, 2, 3], [0.5, 9.0, 0.25, 9.0]) == [-1, -1, -1, -1]


def test_without_any_value_there_is_none() -> None:
    none = np.zeros(0, np.int64)
    assert _last_up_to(none, np.zeros(0), np.array([0, 3]), np.array([1.0, 2.0])).tolist() == [-1, -1]
