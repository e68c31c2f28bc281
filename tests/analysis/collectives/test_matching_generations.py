"""Groups that are made again under one name number their operations anew: which one a row belongs to."""

from __future__ import annotations

import math

import numpy as np
import pytest

from timing_logger.analysis.collectives.matching import generations, generations_by_iteration


def test_from_a_number_that_occurs_again_on_the_next_generation_goes_on() -> None:
    earlier, of_rank = np.array([0, 0, 1, 0, 0, 1]), np.array([0, 0, 0, 0, 1, 1])
    starts = np.array([1.0, 2.0, 3.0, 4.0, 1.0, 2.0])
    assert generations(earlier, of_rank, starts).tolist() == [0, 0, 1, 1, 0, 1]


def test_generations_follow_time_and_not_the_order_of_rows() -> None:
    earlier, of_rank = np.array([1, 0, 0]), np.zeros(3, np.int64)
    assert generations(earlier, of_rank, np.array([5.0, 1.0, 6.0])).tolist() == [1, 0, 1]


def test_where_no_number_occurs_again_there_is_one_generation() -> None:
    none = np.zeros(3, np.int64)
    assert generations(none, none, np.arange(3.0)).tolist() == [0, 0, 0]


# -- where rows were lost --------------------------------------------------------------------------------


def corrected(*rows: tuple[int, int, float], operations: list[int] | None = None) -> list[int]:
    """Return the corrected generations of rows: the generation as counted, the rank, and the iteration."""
    generation, rank, iteration = (np.array(column) for column in zip(*rows, strict=True))
    operation = np.array(operations or [0] * len(rows))
    return generations_by_iteration(generation, operation, rank, iteration.astype(np.float64)).tolist()


FULL = (0, 0, 10.0), (1, 0, 20.0), (2, 0, 30.0)


@pytest.mark.parametrize("counted", [0, 1, 2])
@pytest.mark.parametrize(
    ("iteration", "generation"),
    [(9, 0), (10, 0), (11, 0), (20, 1), (21, 1), (29, 2), (31, 2), (8, None), (25, None), (32, None)],
)
def test_a_rank_that_lost_rows_gets_the_generation_of_the_nearest_iteration_if_that_is_one_off_at_most(
    iteration: float, generation: int | None, counted: int
) -> None:
    found = counted if generation is None else generation
    assert corrected(*FULL, (counted, 1, iteration)) == [0, 1, 2, found]


def test_a_row_of_unknown_iteration_and_one_far_from_all_keep_theirs_beside_one_that_is_corrected() -> None:
    lost_one = (0, 1, math.nan), (0, 1, 20.0)
    assert corrected(*FULL, *lost_one) == [0, 1, 2, 0, 1]
    assert corrected(*FULL, (2, 1, 25.0), (0, 1, 20.0)) == [0, 1, 2, 2, 1]


def test_where_no_iteration_is_known_all_keep_theirs() -> None:
    assert corrected(*((at, 0, math.nan) for at in range(3)), (0, 1, math.nan)) == [0, 1, 2, 0]


def test_each_operation_is_corrected_by_its_own_rows() -> None:
    other = (0, 2, 30.0), (1, 2, 10.0)
    assert corrected(*FULL, (0, 1, 20.0), *other, (0, 1, 10.0), operations=[0] * 4 + [1] * 3) == [
        0, 1, 2, 1, 0, 1, 1,
    ]  # fmt: skip


def test_a_correction_that_would_give_a_rank_one_generation_twice_is_not_made() -> None:
    assert corrected(*FULL, (0, 1, 20.0), (1, 1, 21.0)) == [0, 1, 2, 0, 1]
    assert corrected(*FULL, (0, 1, 20.0), (1, 1, 30.0)) == [0, 1, 2, 1, 2]


def test_ranks_with_equally_many_rows_keep_their_generations() -> None:
    assert corrected((0, 0, 10.0), (1, 0, 20.0), (0, 1, 20.0), (1, 1, 10.0)) == [0, 1, 0, 1]
