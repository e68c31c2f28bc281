"""The rows of communication of all processes: the steps that they are in."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pandas as pd

from timing_logger.analysis.accounting.lines import PROCESS
from timing_logger.analysis.accounting.part import PLACE
from timing_logger.analysis.accounting.run import steps_by_place


def steps(process: list[int], place: list[int], numbers: list[int], n_steps: list[int]) -> list[float]:
    rows = nw.from_native(pd.DataFrame({PROCESS: process, PLACE: place}), eager_only=True)
    return steps_by_place(rows, np.array(numbers), np.array(n_steps)).tolist()


def test_a_row_is_in_the_step_at_its_place_among_those_of_its_process() -> None:
    assert steps([1, 0, 1, 0], [0, 1, 2, 0], [10, 20, 30, 40, 50], [2, 3]) == [30, 20, 50, 10]


def test_outside_of_any_step_and_of_processes_without_steps_it_is_unknown() -> None:
    found = steps([0, 1, 1, 2], [-1, 0, 1, 0], [10, 20, 30], [2, 0, 1])
    np.testing.assert_array_equal(found, [np.nan, np.nan, np.nan, 30])
