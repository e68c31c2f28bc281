"""How many iterations a recorded step stands for, and steps of several parts together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from step_rows import StepRow, work_rows

from timing_logger.analysis.step_times.process_steps import _stands_for, joined_steps, process_steps


def stands_for(*numbers: float, iterations: list[int], groups: list[int] | None = None) -> list[float]:
    """Return what each step stands for that has a collective of its number; one process."""
    rows = [
        StepRow("ALLREDUCE", i, i + 0.5, i, number=number, group=group)
        for i, (number, group) in enumerate(zip(numbers, groups or [0] * len(numbers), strict=True))
    ]
    process = np.zeros(len(numbers), np.int64)
    return _stands_for(work_rows(rows), process, np.array(iterations)).tolist()


def test_where_collectives_were_left_out_a_step_stands_for_the_iterations_since_the_one_before() -> None:
    found = stands_for(0, 40, 80, iterations=[0, 40, 80])
    assert found == pytest.approx([math.nan, 40, 40], nan_ok=True)


def test_where_none_was_left_out_a_step_stands_for_itself() -> None:
    assert stands_for(0, 1, 2, iterations=[0, 40, 80]) == pytest.approx([math.nan, 1, 1], nan_ok=True)


def test_collectives_without_a_number_show_nothing() -> None:
    found = stands_for(math.nan, math.nan, iterations=[3, 13])
    assert found == pytest.approx([math.nan, 10], nan_ok=True)


def test_numbers_of_different_groups_do_not_follow_each_other() -> None:
    found = stands_for(0, 1, iterations=[0, 10], groups=[0, 1])
    assert found == pytest.approx([math.nan, 10], nan_ok=True)


def test_a_gap_in_the_numbers_of_one_group_outweighs_that_another_has_none() -> None:
    rows = [
        StepRow("ALLREDUCE", step, step + 0.5, step, group=group, number=number)
        for group, numbers in enumerate([(0, 1), (0, 10)])
        for step, number in enumerate(numbers)
    ]
    found = _stands_for(work_rows(rows), np.zeros(2, np.int64), np.array([0, 10]))
    assert found[1] == 10


def test_the_times_of_processes_stand_one_after_the_other_and_are_numbered_throughout() -> None:
    one = [StepRow("FORWARD", 0, 1), StepRow("ALLREDUCE", 1, 2), StepRow("ALLREDUCE", 3, 4, 1)]
    other = [StepRow("DATA", 0, 3), StepRow("ALLREDUCE", 5, 6), StepRow("ALLREDUCE", 1, 2, 1, 1)]
    parts = [
        process_steps(
            work_rows(rows), np.array(ranks), (np.array(process), np.array([7, 8]), np.zeros(2)),
            np.array([7, 8]), with_gaps=True,
        )
        for rows, ranks, process in ((one, [4], [0, 0]), (other, [5, 6], [0, 1]))
    ]  # fmt: skip
    found = joined_steps(parts)
    assert (found.ranks.tolist(), found.process.tolist()) == ([4, 5, 6], [0, 0, 1, 2])
    assert found.n_steps.tolist() == [2, 1, 1]
    works_ms = {name: ms.tolist() for name, ms in found.work_ms.items()}
    assert works_ms == {"FORWARD": [1000, 0, 0, 0], "DATA": [0, 0, 3000, 0]}
    assert found.gap_ms == pytest.approx([math.nan, 1000, math.nan, math.nan], nan_ok=True)
    assert found.blocked_ms.tolist() == [1000, 1000, 1000, 1000]
    assert (found.begins_s.tolist(), found.ends_s.tolist()) == ([0, 3, 0, 1], [2, 4, 6, 2])


def test_the_first_step_of_a_process_tells_nothing_of_the_time_without_rows() -> None:
    rows = [
        StepRow("DATA", 0, 1), StepRow("FORWARD", 2, 3),
        StepRow("DATA", 4, 5, 1), StepRow("FORWARD", 7, 8, 1),
    ]  # fmt: skip
    steps = np.zeros(2, np.int64), np.array([0, 1]), np.zeros(2)
    found = process_steps(work_rows(rows), np.array([0]), steps, np.array([0, 1]), with_gaps=False)
    assert found.unlogged_ms == [{("DATA", "FORWARD"): 2000}]
