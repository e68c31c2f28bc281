"""The time between the communication of processes, what it was spent in, and what no row covers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from step_rows import StepRow, work_rows

from timing_logger.analysis.rows.operations import needs_no_other_rank
from timing_logger.analysis.step_times.work_rows import (
    Ends,
    _means_between,
    ends_of_communication,
    gap_ms,
    in_gaps_ms,
    unlogged_ms,
)

US = 1e-6


def calls(*spans_s: tuple[float, float], process: int = 0, entry: int = 0) -> list[StepRow]:
    """Return a collective in each step of a process, whose steps are numbered from ``entry``."""
    return [StepRow("ALLREDUCE", *span, entry + i, process) for i, span in enumerate(spans_s)]


def ends_of(rows: list[StepRow], process: list[int]) -> Ends:
    return ends_of_communication(work_rows(rows), np.array(process))


# -- ends of communication -------------------------------------------------------------------------------


def test_a_step_ends_with_the_last_call_in_it_that_blocked() -> None:
    rows = [*calls((1, 2), (3, 4)), StepRow("BARRIER", 2.5, 2.75, 0), StepRow("FORWARD", 2, 9, 0)]
    assert ends_of(rows, [0, 0]).of_all.tolist() == [2.75, 4]


def test_steps_without_communication_are_left_out_of_the_ends_of_each_process() -> None:
    rows = [*calls((1, 2)), *calls((3, 4), entry=2), *calls((5, 6), process=2, entry=4)]
    ends = ends_of(rows, [0, 0, 0, 1, 2])
    assert np.isnan(ends.of_all).tolist() == [False, True, False, True, False]
    assert (ends.entries.tolist(), ends.end_s.tolist()) == ([0, 2, 4], [2, 4, 6])
    assert (ends.process.tolist(), ends.begin.tolist()) == ([0, 0, 2], [0, 2, 2, 3])


@pytest.mark.parametrize("span", [(math.nan, 2.0), (1.0, math.nan)])
def test_a_call_of_which_an_instant_is_unknown_ends_no_step(span: tuple[float, float]) -> None:
    assert np.isnan(ends_of(calls(span), [0]).of_all).all()


# -- gaps ------------------------------------------------------------------------------------------------


def gaps_ms(rows: list[StepRow], process: list[int], stands_for: list[float] | None = None) -> list[float]:
    every = work_rows(rows)
    iterations = np.array(stands_for or [math.nan, *[1.0] * (len(process) - 1)])
    found = gap_ms(every, every.operations_are(needs_no_other_rank), ends_of(rows, process), iterations)
    return found.tolist()


def test_a_gap_is_the_time_since_the_communication_of_the_step_before_without_the_calls_in_it() -> None:
    found = gaps_ms(calls((0, 1), (2.5, 3), (3.75, 5)), [0, 0, 0])
    assert found == pytest.approx([math.nan, 1500, 750], nan_ok=True)


def test_the_first_step_of_each_process_has_no_gap() -> None:
    rows = [*calls((0, 1), (2, 3)), *calls((0, 2), (5, 6), process=1, entry=2)]
    found = gaps_ms(rows, [0, 0, 1, 1], [math.nan, 1, math.nan, 1])
    assert found == pytest.approx([math.nan, 1000, math.nan, 3000], nan_ok=True)


def test_a_call_beside_work_of_another_thread_takes_nothing_from_the_gap() -> None:
    work = StepRow("FORWARD", 1.5, 2.75, 1, lane=1)
    assert gaps_ms([*calls((0, 1), (2.5, 3)), work], [0, 0])[1] == pytest.approx(1750)


def test_a_call_within_a_row_of_work_of_the_same_thread_is_no_work() -> None:
    work = StepRow("STEP", 1.5, 3, 1)
    assert gaps_ms([*calls((0, 1), (2.5, 3)), work], [0, 0])[1] == pytest.approx(1500)


def test_a_step_that_stands_for_several_iterations_has_the_gap_of_one() -> None:
    assert gaps_ms(calls((0, 1), (8.5, 9)), [0, 0], [math.nan, 4])[1] == pytest.approx(1500)


def test_where_calls_took_longer_than_an_iteration_does_there_is_no_gap() -> None:
    assert gaps_ms(calls((0, 1), (1.5, 9)), [0, 0], [math.nan, 4])[1] == 0


def test_the_gap_over_a_step_without_communication_is_that_of_an_iteration_on_average() -> None:
    rows = [*calls((0, 1)), *calls((6.5, 7)), StepRow("FORWARD", 2, 3, 1)]
    rows[1] = rows[1]._replace(entry=2)
    assert gaps_ms(rows, [0, 0, 0], [math.nan, 1, 2])[2] == pytest.approx(6000 / 1.5 - 500)


def test_means_are_of_the_values_after_one_place_up_to_another() -> None:
    values = np.array([math.nan, 10.0, 1.0, 3.0, math.nan, 7.0])
    found = _means_between(values, np.array([0, 1, 0, 3, 4]), np.array([1, 3, 3, 5, 5]))
    assert found == pytest.approx([10.0, 2.0, 14 / 3, math.nan, 7.0], nan_ok=True)


# -- what they were spent in -----------------------------------------------------------------------------


def in_gaps(rows: list[StepRow], process: list[int]) -> dict[str, list[float]]:
    every = work_rows(rows)
    found = in_gaps_ms(every, every.elapsed_ms, ends_of(rows, process), needs_no_other_rank)
    return {name: ms.tolist() for name, ms in found.items()}


def test_work_counts_in_the_gap_in_which_it_begins() -> None:
    rows = [*calls((0, 1), (3, 4)), StepRow("GC", 2, 2.5, 1), StepRow("DATA", 0.5, 0.75, 1)]
    assert in_gaps(rows, [0, 0]) == {"DATA": [250, 0], "GC": [0, 500]}


def test_work_that_is_stated_of_a_step_counts_in_the_gap_of_the_next_where_it_begins_in_that() -> None:
    rows = [*calls((0, 1), (3, 4)), StepRow("GC", 1.5, 2, 0)]
    assert in_gaps(rows, [0, 0]) == {"GC": [0, 500]}


@pytest.mark.parametrize(("before_us", "entry"), [(0.5, 1), (2.0, 0)])
def test_work_that_begins_a_moment_before_the_communication_ends_is_of_the_next_gap(
    before_us: float, entry: int
) -> None:
    begin_s = 1 - before_us * US
    found = in_gaps([*calls((0, 1), (3, 4)), StepRow("GC", begin_s, begin_s + 0.5)], [0, 0])["GC"]
    assert found[entry] == pytest.approx(500)
    assert found[1 - entry] == 0


def test_work_after_the_last_communication_of_its_process_is_in_no_gap() -> None:
    rows = [
        *calls((0, 1), (3, 4)), StepRow("GC", 2, 2.25, 1), StepRow("GC", 4.5, 5, 1),
        *calls((2, 3), (5, 6), process=1, entry=2), StepRow("GC", 4, 4.75, 3, 1), StepRow("GC", 6.5, 7, 3, 1),
    ]  # fmt: skip
    assert in_gaps(rows, [0, 0, 1, 1]) == {"GC": [0, 250, 0, 750]}


# -- what no row covers ----------------------------------------------------------------------------------


def unlogged(rows: list[StepRow], n_processes: int = 1) -> list[dict[tuple[str, str], float]]:
    every = work_rows(rows)
    return unlogged_ms(every, np.ones(len(rows), np.bool_), n_processes)


def test_time_without_a_row_is_told_by_what_was_before_and_after_it_in_each_process() -> None:
    rows = [
        StepRow("DATA", 0, 1), StepRow("FORWARD", 1.5, 2), StepRow("ALLREDUCE", 2, 3),
        StepRow("DATA", 3.25, 4), StepRow("FORWARD", 4.75, 5),
        StepRow("DATA", 0, 1, 1, 2), StepRow("ALLREDUCE", 3, 4, 1, 2),
    ]  # fmt: skip
    assert unlogged(rows, 4) == [
        {("DATA", "FORWARD"): 1250, ("ALLREDUCE", "DATA"): 250}, {}, {("DATA", "ALLREDUCE"): 2000}, {},
    ]  # fmt: skip


def test_time_that_a_row_of_another_thread_covers_is_not_without_a_row() -> None:
    rows = [StepRow("DATA", 0, 4, lane=1), StepRow("FORWARD", 1, 2), StepRow("BACKWARD", 3, 5)]
    assert unlogged([*rows, StepRow("STEP", 6, 7)]) == [{("BACKWARD", "STEP"): 1000}]
    assert unlogged([rows[0], rows[1], StepRow("STEP", 6, 7)]) == [{("DATA", "STEP"): 2000}]


def test_where_a_device_has_rows_these_are_the_ones_before_and_after() -> None:
    rows = [
        StepRow("FORWARD", 0, 1, lane=1, on_device=True), StepRow("LAUNCH", 0, 2),
        StepRow("LOG", 3, 4), StepRow("BACKWARD", 3.5, 5, lane=1, on_device=True),
        StepRow("LAUNCH", 0, 1, 1, 1), StepRow("LOG", 2, 3, 1, 1),
    ]  # fmt: skip
    assert unlogged(rows, 2) == [{("FORWARD", "BACKWARD"): 1000}, {("LAUNCH", "LOG"): 1000}]


def test_rows_of_which_an_instant_is_unknown_bound_nothing() -> None:
    rows = [StepRow("DATA", 0, 1), StepRow("GC", 1.5, math.nan), StepRow("FORWARD", 2, 3)]
    assert unlogged(rows) == [{("DATA", "FORWARD"): 1000}]


def test_a_row_without_a_length_divides_what_no_row_covers() -> None:
    rows = [StepRow("DATA", 0, 1, 0), StepRow("MARK", 3, 3, 0), StepRow("FORWARD", 5, 6, 0)]
    (found,) = unlogged_ms(work_rows(rows), np.ones(3, np.bool_), 1)
    assert found == pytest.approx({("DATA", "MARK"): 2000, ("MARK", "FORWARD"): 2000})
