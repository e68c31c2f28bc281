"""The cells of the heatmap: which step is in which column, and what stands in a cell, by small tables."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from typing import Any

import numpy as np
import pandas as pd
import pytest
from page_data import unpacked
from snapshots import HEALTHY

from timing_logger.analysis import Verdict
from timing_logger.report.html._crowd import OwnTimes
from timing_logger.report.html._heatmap_grid import Grid, StepAxis, _column_of, _stretches


def steps(
    *rows: tuple[int, ...], names: tuple[str, ...] = ("rank", "incarnation", "iteration")
) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=list(names))


def run_of(n_ranks: int, iterations: list[int]) -> pd.DataFrame:
    return steps(*((rank, 1, iteration) for rank in range(n_ranks) for iteration in iterations))


def own_times(
    ranks: list[int], iterations: list[int], ms: Any, *, epochs: Any = None, slow: Any = None
) -> OwnTimes:
    without = np.full(len(iterations), nan)
    return OwnTimes(
        ranks, np.array(iterations), without if epochs is None else np.array(epochs, float),
        np.array(ms, float), False, {rank: np.array(at) for rank, at in (slow or {}).items()},
    )  # fmt: skip


# -- columns ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_steps", "most", "columns"),
    [(3, 9, [0, 1, 2]), (4, 4, [0, 1, 2, 3]), (5, 2, [0, 0, 0, 1, 1]), (4, 2, [0, 0, 1, 1]), (2, 1, [0, 0])],
)
def test_a_column_stands_for_as_many_steps_as_any_other(n_steps: int, most: int, columns: list[int]) -> None:
    assert _column_of(n_steps, most).tolist() == columns


def test_there_are_a_thousand_columns_at_most() -> None:
    assert _column_of(1001, 5000).max() == 999


@pytest.mark.parametrize(("n_ranks", "n_columns"), [(1, 1000), (250, 800), (1000, 200), (2500, 100)])
def test_the_more_processes_the_fewer_columns_but_a_hundred_at_least(n_ranks: int, n_columns: int) -> None:
    table = pd.concat([run_of(1, list(range(1200))), steps(*((rank, 1, 0) for rank in range(1, n_ranks)))])
    assert Grid.of(table).column.max() + 1 == n_columns


@pytest.mark.parametrize(
    ("columns", "stretches"),
    [
        ([], []), ([4], [(4, 4)]), ([1, 2, 3], [(1, 3)]), ([1, 3], [(1, 1), (3, 3)]),
        ([5, 1, 2, 2, 7, 6], [(1, 2), (5, 7)]),
    ],
)  # fmt: skip
def test_columns_without_a_gap_are_one_stretch(columns: list[int], stretches: list[tuple[int, int]]) -> None:
    assert _stretches(np.array(columns, np.int64)) == stretches


def test_a_column_is_named_by_its_first_and_its_last_step() -> None:
    grid = Grid.of(run_of(2, [10, 11, 12, 20, 21]), 2)
    assert grid.per_column == 3
    assert [ends.tolist() for ends in grid.edges()] == [[0, 3], [2, 4]]
    assert [grid.in_words(column) for column in (0, 1)] == ["iterations 10 to 12", "iterations 20 to 21"]


# -- cells -----------------------------------------------------------------------------------------------


def test_a_cell_is_the_mean_over_its_steps_of_the_sums_in_each() -> None:
    table = steps((0, 1, 0), (0, 1, 1), (0, 1, 1), (0, 1, 2), (3, 1, 0), (3, 1, 2)).assign(
        ms=[1.0, 2.0, 4.0, 8.0, nan, 5.0]
    )
    grid = Grid.of(table, 2)
    assert grid.rows == [(0, 1), (3, 1)]
    assert grid.column.tolist() == [0, 0, 1]
    np.testing.assert_equal(grid.means_of(table, "ms").reshape(2, 2), [[3.5, 8.0], [nan, 5.0]])


def test_processes_are_told_apart_by_rank_and_run() -> None:
    table = steps((1, 2, 5), (0, 1, 5), (1, 1, 4), (0, 3, 4))
    grid = Grid.of(table)
    assert grid.rows == [(0, 1), (0, 3), (1, 1), (1, 2)]
    assert grid.ranks.tolist() == [0, 1]
    assert grid.process_of(table).tolist() == [3, 0, 2, 1]
    assert grid.latest.tolist() == [[1, 0], [2, 3]]


def test_of_a_step_that_was_done_again_the_later_process_counts() -> None:
    grid = Grid.of(steps((0, 1, 0), (0, 1, 1), (0, 2, 1)))
    assert grid.latest.tolist() == [[0, 1]]


def test_own_times_stand_in_the_row_of_the_process_that_recorded_the_step_last() -> None:
    grid = Grid.of(steps((0, 1, 0), (0, 2, 1), (4, 1, 0)), 2)
    own = own_times([0, 4], [0, 1, 9], [[1.0, 2.0], [3.0, 7.0], [5.0, 6.0]])
    # rank 4 did not record step 1, and step 9 is not on the axis
    np.testing.assert_equal(grid.means_of_own(own).reshape(3, 2), [[1.0, nan], [nan, 3.0], [2.0, nan]])


def test_own_times_that_are_not_known_are_in_no_cell() -> None:
    grid = Grid.of(run_of(1, [0, 1]), 1)
    np.testing.assert_equal(grid.means_of_own(own_times([0], [0, 1], [[nan], [3.0]])), [3.0])


# -- what is framed --------------------------------------------------------------------------------------


def test_the_rows_and_slow_columns_of_a_named_rank_are_framed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Verdict, "ranks_to_look_at", (3, 8))  # 8 has no rows
    grid = Grid.of(steps((0, 1, 0), (3, 1, 0), (3, 1, 1), (3, 1, 2), (3, 2, 3), (3, 2, 4), (0, 1, 4)))
    own = own_times([0, 3], [0, 1, 2, 3, 4, 7], np.ones((6, 2)), slow={3: [0, 2, 3, 4, 5]})
    assert grid.slow(HEALTHY, own) == {"rows": [1, 2], "frames": [[1, 0, 0], [1, 2, 2], [2, 3, 4]]}


@pytest.mark.parametrize(
    ("fields", "frames"),
    [
        ({"first_iteration": 1, "last_iteration": 2}, [[0, 1, 2]]),
        ({"first_iteration": 1, "last_iteration": 2, "window": "intermittent"}, []),
        ({"first_iteration": None, "last_iteration": 2}, []),
        ({"first_iteration": 1, "last_iteration": None}, []),
        ({"first_iteration": 1, "last_iteration": 9}, []),
        ({"first_iteration": 0, "last_iteration": 0}, [[0, 0, 0]]),
    ],
)
def test_of_a_slow_role_the_range_of_the_verdict_is_framed_unless_it_was_slow_now_and_then(
    fields: dict[str, Any], frames: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Verdict, "ranks_to_look_at", (0,))
    found = replace(HEALTHY, **{"window": "throughout", "first_epoch": None, "last_epoch": None, **fields})
    own = own_times([0], [0], [[1.0]])
    assert Grid.of(run_of(1, [0, 1, 2, 3])).slow(found, own)["frames"] == frames


# -- the axis --------------------------------------------------------------------------------------------

EPOCHS = pd.DataFrame({"iteration": [0, 1, 0, 1, 0], "epoch": [2, 2, 3, 3, 5]})


def test_where_iterations_restart_steps_are_told_apart_by_their_epoch() -> None:
    axis = StepAxis.of(EPOCHS)
    assert axis.steps.tolist() == [0, 1, 2, 3, 4]
    assert axis.places_of(EPOCHS).tolist() == [0, 1, 2, 3, 4]
    assert axis.range_of(1, 4).in_words() == "iteration 1 of epoch 2 to iteration 0 of epoch 5"


@pytest.mark.parametrize(
    ("iteration", "epoch", "place"), [(1, 5, -1), (0, 4, -1), (7, 2, -1), (1, 3, 3), (0, 9, -1), (0, 0, -1)]
)
def test_a_step_that_is_not_on_the_axis_has_no_place(iteration: int, epoch: int, place: int) -> None:
    axis = StepAxis.of(EPOCHS)
    assert axis.places(np.array([iteration]), np.array([epoch], float)).tolist() == [place]


def test_a_row_without_an_epoch_is_of_epoch_0() -> None:
    table = pd.DataFrame({"iteration": [0, 0], "epoch": [nan, 1.0]})
    axis = StepAxis.of(table)
    assert axis.epochs.tolist() == [0, 1]
    assert axis.places_of(table).tolist() == [0, 1]


def test_the_steps_of_a_page_have_epochs_only_where_iterations_restart() -> None:
    one = StepAxis.of(run_of(1, [3, 9]))
    assert one.epochs.tolist() == []
    assert set(one.packed("first", one.steps)) == {"first"}
    axis = StepAxis.of(EPOCHS)
    found = axis.packed("first", axis.steps[[1, 4]])
    assert {name: unpacked(array).tolist() for name, array in found.items()} == {
        "first": [1.0, 0.0], "first_epoch": [2.0, 5.0]
    }  # fmt: skip
