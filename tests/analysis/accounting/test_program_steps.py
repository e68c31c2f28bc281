"""The nodes of a program are of the steps of their rows; others of that of the node before on their line."""

from __future__ import annotations

import math

import numpy as np

from timing_logger.analysis.accounting.nodes import Nodes
from timing_logger.analysis.accounting.program import _steps

NAN = math.nan


def steps(line: list[int], row: list[int], step: list[float]) -> list[int]:
    """Return the step of each node, for the step of each row."""
    none = np.zeros(len(line))
    nodes = Nodes(np.array(line), np.zeros(len(line), np.int64), np.array(row), none, none)
    return _steps(nodes, np.array(step)).tolist()


def test_a_node_is_of_the_step_of_its_row() -> None:
    assert steps([0, 0, 1], [1, 0, 2], [3.0, 2.0, 4.0]) == [2, 3, 4]


def test_a_node_outside_of_any_step_is_of_that_of_the_node_before_on_its_line() -> None:
    assert steps([0, 0, 0, 0], [0, 1, 2, -1], [3.0, NAN, 5.0]) == [3, 3, 5, 5]


def test_before_any_step_of_its_line_it_is_of_the_first_there() -> None:
    assert steps([0, 1, 1, 1], [0, -1, 1, 2], [3.0, NAN, 5.0]) == [3, 5, 5, 5]


def test_nodes_of_a_line_without_any_step_are_of_the_first_of_all() -> None:
    assert steps([0, 1, 1, 2], [0, -1, 1, 2], [3.0, NAN, 5.0]) == [3, 0, 0, 5]
    assert steps([0, 0, 1], [0, 1, -1], [3.0, 4.0]) == [3, 4, 0]
    assert steps([0, 0], [0, -1], [NAN]) == [0, 0]
    assert steps([0], [-1], []) == [0]
