"""Which rows of the report's timeline are said to belong together: of one collective, or of one message."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from message_rows import one_message, receive, send
from page_data import unpacked
from rank_tables import aligned, collective
from rank_tables import quick_table as table
from simulated_runs import data_parallel, factors

from timing_logger.report.html import _timeline
from timing_logger.report.html._timeline import NOT_LINKED


def numbers_of(timings: pd.DataFrame, world_size: int | None = None) -> list[int]:
    """For each row in the order of the lanes the number of what it belongs to; -1 for nothing."""
    drawn = _timeline.timeline_of([_timeline.spans_of(timings)], world_size)
    assert drawn.data is not None
    steps = unpacked(drawn.data["link"])
    linked: Any = steps != NOT_LINKED
    return np.where(linked, np.cumsum(np.where(linked, steps, 0)), -1).tolist()  # type: ignore[no-any-return]


def test_the_parts_of_a_collective_belong_together_and_work_to_nothing() -> None:
    run = data_parallel(factors(3, 2), operations_ms={"FORWARD": 1.0, "OPTIMIZER": 1.0})
    assert numbers_of(run) == 2 * [-1, 0, -1, -1, 1, -1, -1, 2, -1]


@pytest.mark.parametrize(
    ("group_size", "world_size", "numbers"), [(2, None, [0, 0]), (3, 3, [0, 0]), (3, 4, [-1, -1])]
)
def test_the_two_sides_of_a_message_belong_together_if_it_is_known_whose_they_are(
    group_size: int, world_size: int | None, numbers: list[int]
) -> None:
    message = one_message(send(0.0), receive(1.0)).assign(group_size=group_size)
    assert numbers_of(message, world_size) == numbers


def test_a_collective_and_a_message_of_one_number_are_two_things() -> None:
    message = one_message(send(9.0), receive(10.0))
    both = pd.concat([aligned(table(*collective([0.0, 1.0], 3.0))), message], ignore_index=True)
    assert numbers_of(both, 2) == [0, 1, 0, 1]


def test_a_row_whose_counterpart_is_not_there_belongs_to_nothing() -> None:
    first, _ = collective([0.0, 1.0], 3.0)
    assert numbers_of(table(first, [])) == [-1]


def test_ranks_that_disagree_about_the_operation_are_not_joined() -> None:
    run = data_parallel(factors(1, 2), operations_ms={"FORWARD": 1.0, "OPTIMIZER": 1.0})
    run.loc[(run["operation"] == "ALLREDUCE") & (run["rank"] == 1), "operation"] = "BCAST"
    assert set(numbers_of(run)) == {-1}


def test_rows_without_a_number_are_not_joined_by_their_order() -> None:
    run = data_parallel(factors(3, 2)).assign(seq=pd.array([None] * 30, "Int64"))
    assert set(numbers_of(run)) == {-1}
