"""How long a run lasted, how its collectives are matched, and what program it is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from account_rows import row, table

from timing_logger.analysis.accounting.lines import AccountLines
from timing_logger.analysis.step_times.step_times import step_times
from timing_logger.analysis.step_times.transfers import wall_ms


def lines(rank: list[int], seconds: list[float], is_main: list[bool] | None = None) -> AccountLines:
    n, begin_s = len(rank), np.full(len(rank), 5.0)
    main = np.array(is_main if is_main is not None else [True] * n, np.bool_)
    number = np.arange(n)
    return AccountLines(
        number, np.array(rank, np.int64), number, [""] * n, main, main, begin_s, begin_s + np.array(seconds)
    )


def test_a_run_lasts_as_long_as_the_rank_that_was_there_longest() -> None:
    assert wall_ms(lines([3, 7], [0.25, 0.125])) == pytest.approx(250)


def test_processes_of_a_rank_count_together_and_each_once() -> None:
    of = lines([0, 1, 0, 1], [0.25, 0.25, 0.5, 0.75], [True, True, True, False])
    assert wall_ms(of) == pytest.approx(750)


def test_without_a_process_it_is_0() -> None:
    assert wall_ms(lines([], [])) == 0.0


# -- the program of a run ------------------------------------------------------------------------------------


def test_collectives_without_a_number_are_matched_step_by_step() -> None:
    spans = [(0, 3, 1, 2), (0, 4, 11, 15), (1, 4, 13, 15)]
    rows = [
        row(rank, "BARRIER", begin, end, group_size=2, seq=math.nan, iteration=it)
        for rank, it, begin, end in spans
    ]
    waits = step_times(table(*rows)).waits
    assert waits.own_ms[1] == pytest.approx([2, 0])
    assert waits.unmatched_ms[0] == pytest.approx([1, 0])


@pytest.mark.parametrize(("incarnations", "restarts"), [([1, 2], True), ([1, 1], False)])
def test_a_run_of_which_a_rank_was_started_again_is_no_one_program(
    incarnations: list[int], restarts: bool
) -> None:
    rows = [row(0, "BARRIER", 1 + at, 2 + at, incarnation=its) for at, its in enumerate(incarnations)]
    played = step_times(table(*rows)).played
    assert played is not None
    assert played.restarts is restarts


def test_a_run_without_steps_is_played_as_one_step() -> None:
    played = step_times(table(row(0, "BARRIER", 1, 2, iteration=3)).iloc[:0]).played
    assert played is not None
    assert played.program.n_steps == 1
