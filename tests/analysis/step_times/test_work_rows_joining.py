"""Columns of several parts stand one after the other, also where some parts lack one."""

from __future__ import annotations

import numpy as np

from timing_logger.analysis.step_times.work_rows import joined_columns


def test_a_blank_stands_for_the_column_that_a_part_lacks_in_the_type_of_the_others() -> None:
    parts = [{"a": np.array([1, 2])}, {}, {"a": np.array([3]), "b": np.array([0.5])}]
    found = joined_columns(parts, [2, 1, 1], 0)
    assert {name: column.tolist() for name, column in found.items()} == {
        "a": [1, 2, 0, 3],
        "b": [0, 0, 0, 0.5],
    }
    assert found["a"].dtype == np.int64


def test_the_columns_of_one_part_are_its_own() -> None:
    part = {"a": np.array([1, 2])}
    found = joined_columns([part], [2], 0)
    assert found == part
    assert found is not part
