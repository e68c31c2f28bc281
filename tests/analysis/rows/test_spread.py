"""From when on a rank stands out, and which rows are summed by step for that."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rank_tables import only
from rank_tables import quick_table as table
from timing_files import record

from timing_logger.analysis import spread_between_ranks
from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.spread import joined_steps, spread_of_steps, synchronised_steps
from timing_logger.analysis.rows.tables import opened
from timing_logger.schema.record import Record

WALL_MS = 1000.0


def spread_of(
    time_ms: Any, *, walls_s: tuple[float, ...] = (WALL_MS / 1e3,), **fields: Any
) -> dict[str, Any]:
    """Return the spread of ranks with these times, steps x ranks, in a run that is this long."""
    time_ms = np.asarray(time_ms, np.float64)
    rows = [
        [record(start_s=1.0 + step, elapsed_ms=ms, iteration=step, group_size=len(time_ms.T), **fields)
         for step, ms in enumerate(its)]
        for its in time_ms.T.tolist()
    ]  # fmt: skip
    frame = opened(table(*rows), COLUMNS_OF["overview"])
    return only(spread_of_steps(frame, synchronised_steps(frame), np.array(walls_s)))


def stands_out(time_ms: Any, **others: Any) -> bool:
    return bool(spread_of(time_ms, **others)["stands_out"])


def test_the_figures_are_of_the_rank_with_the_least_time_and_of_the_others() -> None:
    found = spread_of([[4.0, 3.0, 2.0, 9.0], [4.0, 1.0, 2.0, 9.0], [4.0, 1.0, 3.0, 9.0]])
    assert (found["least_rank"], found["least_ms"], found["least_in_steps"]) == (1, pytest.approx(5.0), 2)
    assert (found["ranks"], found["steps"], found["stands_out"]) == (4, 3, False)
    others = [found[f"others_{which}_ms"] for which in ("min", "median", "max")]
    assert others == pytest.approx([7.0, 12.0, 27.0])
    assert found["ratio"] == pytest.approx(12.0 / 5.0)


def test_the_ratio_to_no_time_is_unknown() -> None:
    assert math.isnan(spread_of([[0.0, 4.0]])["ratio"])


@pytest.mark.parametrize(("ms", "does"), [(1.5, True), (1.49, False)])
def test_every_other_rank_must_take_half_as_much_again(ms: float, does: bool) -> None:
    assert stands_out([[1.0, 4.0, ms]] * 20) is does


@pytest.mark.parametrize(("n_steps", "does"), [(20, True), (19, False)])
def test_it_takes_twenty_steps(n_steps: int, does: bool) -> None:
    assert stands_out([[1.0, 4.0, 4.0]] * n_steps) is does


@pytest.mark.parametrize(("least_in", "does"), [(10, False), (11, True)])
def test_a_rank_must_have_the_least_time_in_more_than_half_of_the_steps(least_in: int, does: bool) -> None:
    steps = [[1.0, 40.0, 40.0]] * least_in + [[2.0, 1.0, 40.0]] * (20 - least_in)
    assert stands_out(steps) is does


@pytest.mark.parametrize(
    ("walls_s", "does"),
    [((1.0,), True), ((6.0,), True), ((6.1,), False), ((1.0, 6.1, 7.0), False), ((), False),
     ((-1.0, math.nan, 0.0), False), ((math.nan, -9.0, 1.0), True)],
)  # fmt: skip
def test_the_others_must_take_longer_by_a_hundredth_of_the_typical_wall_time(
    walls_s: tuple[float, ...], does: bool
) -> None:
    assert stands_out([[1.0, 4.0, 4.0]] * 20, walls_s=walls_s) is does


# -- which rows --------------------------------------------------------------------------------------------


def summed(*ranks: list[Record], **kwargs: Any) -> Any:
    return synchronised_steps(opened(table(*ranks, **kwargs), COLUMNS_OF["overview"]))


def test_rows_of_a_step_are_summed_with_their_bytes_and_the_largest_size_of_the_group() -> None:
    rows = [
        record(elapsed_ms=2.0, group_size=None, message_size_bytes=100),
        record(elapsed_ms=3.0, group_size=4, message_size_bytes=None),
        record(elapsed_ms=5.0, group_size=2, message_size_bytes=20),
        record(elapsed_ms=7.0, group_size=None, iteration=1, message_size_bytes=1),
    ]
    found = summed(rows)
    assert found.names == [("ALLREDUCE", "world")]
    assert found.n_rows.tolist() == [3, 1]
    assert found.total_bytes.tolist() == [120.0, 1.0]
    assert found.time_ms.tolist() == pytest.approx([10.0, 7.0])
    np.testing.assert_array_equal(found.group_size, [4.0, np.nan])


@pytest.mark.parametrize(
    "other",
    [
        {"operation": "BCAST"},
        {"status": "error:RuntimeError"},
        {"elapsed_ms": None},
        {"operation": "FORWARD"},
    ],
)
def test_rows_that_are_not_valid_or_synchronise_nobody_are_left_out(other: dict[str, Any]) -> None:
    assert summed([record(), record(**other)]).n_rows.tolist() == [1]
    assert summed([record(elapsed_ms=0.0)]).n_rows.tolist() == [1]


def test_the_number_of_an_operation_tells_steps_apart_only_outside_of_iterations() -> None:
    found = summed([record(seq=seq, iteration=it) for seq, it in ((0, 3), (1, 3), (2, None), (3, None))])
    rows = zip(found.iteration.tolist(), found.seq.tolist(), found.n_rows.tolist(), strict=True)
    assert sorted(str(row) for row in rows) == ["(3.0, nan, 2)", "(nan, 2.0, 1)", "(nan, 3.0, 1)"]


def test_sums_of_processes_are_joined_under_the_names_of_all() -> None:
    one, other = summed([record(group="b")]), summed([], [record(group="c"), record(group="a")])
    found = joined_steps([one, other])
    assert found.names == [("ALLREDUCE", "a"), ("ALLREDUCE", "b"), ("ALLREDUCE", "c")]
    assert sorted(zip(found.name.tolist(), found.rank.tolist(), strict=True)) == [(0, 1), (1, 0), (2, 1)]
    assert found.only(found.name == 1).rank.tolist() == [0]


# -- which steps -------------------------------------------------------------------------------------------


def each_step(n: int, **fields: Any) -> list[Record]:
    return [
        record(**{"iteration": step, "group_size": 2, "elapsed_ms": 1.0 + step, **fields})
        for step in range(n)
    ]


def test_steps_with_as_many_rows_on_all_ranks_are_compared_in_a_named_group() -> None:
    more = [*each_step(3, message_size_bytes=1), record(iteration=1, group_size=2)]
    found = only(spread_between_ranks(table(each_step(3), more)))
    assert (found["steps"], found["least_ms"]) == (2, pytest.approx(4.0))
    unnamed = [each_step(3, group=""), each_step(3, group="", message_size_bytes=1)]
    assert len(spread_between_ranks(table(*unnamed))) == 0


def test_a_rank_alone_is_not_compared() -> None:
    assert len(spread_between_ranks(table(each_step(3, group_size=None)))) == 0
    assert len(spread_between_ranks(table(each_step(3), each_step(3, group_size=None)))) == 1
    assert len(spread_between_ranks(table(each_step(3), each_step(3, group_size=3)))) == 0


def test_iterations_that_restart_are_steps_of_their_epochs() -> None:
    twice = [*each_step(3, epoch=0), *each_step(3, epoch=1)]
    assert only(spread_between_ranks(table(twice, twice)))["steps"] == 6
    assert only(spread_between_ranks(table(*[each_step(3)] * 2)))["steps"] == 3


def test_rows_of_the_group_that_are_of_no_iteration_are_left_out_where_others_have_one() -> None:
    rows = [*each_step(3), record(iteration=None, seq=7, group_size=2)]
    found = only(spread_between_ranks(table(rows, rows)))
    assert (found["steps"], found["least_ms"]) == (3, pytest.approx(6.0))


def test_without_any_step_there_is_nothing_to_compare() -> None:
    rows = [record(iteration=None, group_size=2)]
    found = spread_between_ranks(table(rows, rows))
    assert isinstance(found, pd.DataFrame)
    assert len(found) == 0
