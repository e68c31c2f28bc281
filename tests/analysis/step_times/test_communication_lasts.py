"""How long a run lasted, by the rank that was there longest."""

from __future__ import annotations

import numpy as np
import pytest

from timing_logger.analysis.accounting.lines import Lines
from timing_logger.analysis.step_times.communication import wall_ms


def lines(rank: list[int], seconds: list[float], is_main: list[bool] | None = None) -> Lines:
    n, begin_s = len(rank), np.full(len(rank), 5.0)
    main = np.array(is_main if is_main is not None else [True] * n, np.bool_)
    number = np.arange(n)
    return Lines(
        number, np.array(rank, np.int64), number, [""] * n, main, main, begin_s, begin_s + np.array(seconds)
    )


def test_a_run_lasts_as_long_as_the_rank_that_was_there_longest() -> None:
    assert wall_ms(lines([3, 7], [0.25, 0.125])) == pytest.approx(250)


def test_processes_of_a_rank_count_together_and_each_once() -> None:
    of = lines([0, 1, 0, 1], [0.25, 0.25, 0.5, 0.75], [True, True, True, False])
    assert wall_ms(of) == pytest.approx(750)


def test_without_a_process_it_is_0() -> None:
    assert wall_ms(lines([], [])) == 0.0
