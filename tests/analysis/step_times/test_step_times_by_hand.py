"""Times by step and rank: what is told of them, and how the steps of processes are joined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hand_made_cases import steps, times_of
from rank_tables import quick_table as table
from timing_files import record

from timing_logger.analysis.rows.steps import Numbering
from timing_logger.analysis.step_times.process_steps import map_step_times
from timing_logger.analysis.step_times.step_times import (
    _known_epochs,
    _numbered_together,
    _recorded_every,
    reduce_step_times,
    step_times,
)
from timing_logger.results.plain import UNLOGGED, StepRange
from timing_logger.schema.record import Record

NAN = math.nan
TWO = np.array([[5.0, 4.0], [3.0, 6.0], [2.0, NAN]])


# -- what is told of times -------------------------------------------------------------------------------


def test_steps_and_columns_have_the_names_of_iterations_and_ranks() -> None:
    times = times_of(TWO, ranks=[4, 7], iterations=np.array([10, 20, 30]))
    assert times.step_range(steps(1, 2)) == StepRange(20, 30)
    assert times.ranks_of([1, 0]) == (7, 4)


@pytest.mark.parametrize(("share", "cover"), [(0.7, True), (0.71, False)])
def test_rows_of_own_work_cover_as_much_as_they_do_on_the_rank_where_they_cover_least(
    share: float, cover: bool
) -> None:
    work_ms = np.array([[[3.0, 5.0, NAN, 0.0], [4.0, 5.0, 50.0, 0.0]]])
    gap_ms = np.array([[5.0, 5.0, 50.0, NAN], [5.0, 5.0, 50.0, NAN]])
    assert times_of(gap_ms, operation_ms=work_ms).rows_cover(share) is cover


def test_only_pauses_that_are_recorded_are_told() -> None:
    assert times_of(TWO, in_gaps_ms={"GC": TWO, "FORWARD": TWO}).pauses == ["GC"]
    assert times_of(TWO).pauses == []


def test_time_between_communication_without_a_row_of_work_is_not_timed() -> None:
    gap_ms = np.array([[5.0, 2.0], [4.0, NAN]])
    work_ms = np.array([[[1.0, 2.0], [NAN, 1.0]], [[2.0, 3.0], [1.0, 1.0]]])
    times = times_of(TWO, gap_ms=gap_ms, operation_ms=work_ms, operations=["DATA", "FORWARD"])
    np.testing.assert_array_equal(times.not_timed_ms, [[2.0, 0.0], [3.0, NAN]])


def test_by_gaps_a_ranks_own_time_is_all_between_communication() -> None:
    gap_ms = np.array([[0.5, 0.0], [4.0, 6.0]])
    times = times_of(gap_ms, operation_ms=np.array([[[0.25, 2.0], [3.0, 5.0]]])).by_gaps()
    assert times.operations == ["FORWARD", UNLOGGED]
    assert times.operation_ms.tolist() == [[[0.25, 2.0], [3.0, 5.0]], [[0.25, 0.0], [1.0, 1.0]]]
    np.testing.assert_array_equal(times.self_ms, [[0.5, NAN], [4.0, 6.0]])
    assert times.from_gaps


def test_without_pauses_only_those_in_the_first_step_of_each_rank_are_left() -> None:
    pauses_ms = np.array([[5.0, NAN], [2.0, 4.0], [3.0, 1.0]])
    forward_ms = np.array([[10.0, NAN], [0.0, 9.0], [10.0, 9.0]])
    times = times_of(
        pauses_ms + forward_ms, operations=["FORWARD", "GC"], operation_ms=np.stack([forward_ms, pauses_ms]),
        gap_ms=np.array([[20.0, NAN], [20.0, 20.0], [1.0, 20.0]]),
        in_gaps_ms={"GC": np.nan_to_num(pauses_ms)},
    )  # fmt: skip
    found = times.without_pauses("GC")
    np.testing.assert_array_equal(found.operation_ms[1], [[5.0, NAN], [0.0, 4.0], [0.0, 0.0]])
    np.testing.assert_array_equal(found.operation_ms[0], forward_ms)
    np.testing.assert_array_equal(found.self_ms, [[15.0, NAN], [NAN, 13.0], [10.0, 9.0]])
    np.testing.assert_array_equal(found.gap_ms, [[20.0, NAN], [18.0, 20.0], [0.0, 19.0]])
    assert times.operation_ms[1, 1, 0] == 2.0  # which stays as it was


def test_without_instants_a_run_lasts_as_long_as_the_slowest_rank_of_each_step() -> None:
    assert times_of(TWO).run_ms == 1000.0
    assert times_of(TWO, wall_ms=0.5).run_ms == 0.5
    for unknown_ms in (NAN, 0.0):
        times = times_of(TWO, wall_ms=unknown_ms)
        assert (times.run_ms, times.slowest_ms) == (13.0, 13.0)


def test_a_cost_is_a_share_of_all_that_the_recorded_steps_stand_for() -> None:
    assert times_of(TWO).share_of_run(30.0) == pytest.approx(0.03)
    assert times_of(TWO, recorded_every=10).share_of_run(30.0) == pytest.approx(0.3)
    assert times_of(np.full((2, 2), NAN), wall_ms=NAN).share_of_run(30.0) == 0.0


@pytest.mark.parametrize(
    ("stands_for", "every"),
    [([10.0] * 4 + [1.0], 10), ([10.0] * 3 + [1.0], 1), ([NAN, 5.0, NAN], 5), ([NAN], 1), ([], 1)],
)
def test_steps_stand_for_as_many_as_more_than_three_quarters_of_them_do(
    stands_for: list[float], every: int
) -> None:
    assert _recorded_every(np.array(stands_for)) == every


# -- how the steps of processes are numbered ---------------------------------------------------------------


def steps_of(epochs: Sequence[float], process: Sequence[int], iterations: Sequence[int] = ()) -> Any:
    return SimpleNamespace(
        epochs=np.array(epochs), process=np.array(process), ranks=np.arange(max(process) + 1),
        iterations=np.array(iterations, np.int64),
    )  # fmt: skip


def test_a_process_that_states_no_epoch_was_in_the_first_pass_all_the_time() -> None:
    found = _known_epochs(steps_of([1.0, NAN, NAN, NAN, 2.0], [0, 0, 1, 1, 2]))
    np.testing.assert_array_equal(found, [1.0, NAN, 0.0, 0.0, 2.0])


def parts_of(counted: bool) -> list[Any]:
    """Return the parts of a process that restarts, and of one that does not."""
    restarts = Numbering(np.array([0.0, 1.0]), 3, 2, counted=counted)
    return [
        SimpleNamespace(numbering=restarts, steps=steps_of([0.0, 0.0, 1.0], [0, 0, 0], [0, 1, 2])),
        SimpleNamespace(numbering=Numbering(np.zeros(0)), steps=steps_of([NAN, NAN], [0, 0], [3, 4])),
    ]


def test_where_no_process_restarts_steps_are_iterations() -> None:
    numbering, number = _numbered_together([parts_of(False)[1]] * 2)
    assert number.tolist() == [3, 4, 3, 4]
    assert not numbering.restarts


def test_steps_of_a_process_without_epochs_are_last_or_where_epochs_are_counted_first() -> None:
    recorded, number = _numbered_together(parts_of(False))
    assert number.tolist() == [0, 1, 2, 4, 5]
    assert not recorded.counted
    counted, number = _numbered_together(parts_of(True))
    assert number.tolist() == [0, 1, 2, 0, 1]
    assert counted.counted


# -- from rows ---------------------------------------------------------------------------------------------


def work(*iterations: int | None, ms: float = 5.0, **fields: Any) -> list[Record]:
    return [record("FORWARD", 1.0 + i, ms, iteration=it, **fields) for i, it in enumerate(iterations)]


def test_if_several_processes_of_a_rank_took_a_step_the_latest_counts() -> None:
    rows = table(work(3, 4), work(4, 5, ms=8.0), incarnations=[1, 2]).assign(rank=0)
    times = step_times(rows)
    assert times.iterations.tolist() == [3, 4, 5]
    assert times.self_ms[:, 0].tolist() == pytest.approx([5.0, 8.0, 8.0])


def test_who_records_no_iterations_takes_part_in_no_step_of_the_others() -> None:
    without = table(work(None, None)).assign(rank=1)
    times = reduce_step_times([map_step_times(table(work(3, 4))), map_step_times(without)])
    assert times.iterations.tolist() == [3, 4]
    assert times.has_iterations
    assert np.isnan(times.self_ms[:, 1:]).all()


def test_a_step_without_an_operation_of_its_own_has_no_time_of_it() -> None:
    data = record("DATA", 9.0, 2.0, iteration=4)
    times = step_times(table([*work(3, 4), data], work(3)))
    assert times.operations == ["DATA", "FORWARD"]
    np.testing.assert_allclose(times.operation_ms, [[[0.0, 0.0], [2.0, NAN]], [[5.0, 5.0], [5.0, NAN]]])
    np.testing.assert_allclose(times.self_ms, [[5.0, 5.0], [7.0, NAN]])


def test_steps_stand_for_several_only_where_iterations_are_recorded() -> None:
    assert step_times(table(work(0, 10, 20, 30, 40))).recorded_every == 10
    assert step_times(table(work(0, 1, 2))).recorded_every == 1
    none = step_times(table(work(None, None)))
    assert (none.has_iterations, none.recorded_every) == (False, 1)


def test_a_rank_that_did_nothing_itself_in_a_step_has_no_time_in_it() -> None:
    times = step_times(table([*work(3, ms=0.5), *work(4, ms=0.0)]))
    np.testing.assert_allclose(times.self_ms[:, 0], [0.5, NAN])
    assert times.operation_ms[0, :, 0].tolist() == pytest.approx([0.5, 0.0])


def test_the_account_and_what_ranks_did_while_blocked_are_there_if_they_are_asked_for() -> None:
    rows = table(work(0, 1), work(0, 1))
    plain = reduce_step_times([map_step_times(rows)])
    assert plain.account is None
    assert plain.blocked is None
    assert reduce_step_times([map_step_times(rows)], with_blocked=True).blocked is not None
