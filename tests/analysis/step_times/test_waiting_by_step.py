"""Waits by step and rank: how much of them recurs, and how much is beyond that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from timing_logger.analysis.step_times.communication import Shape
from timing_logger.analysis.step_times.waiting import _varying_ms

Wait = tuple[int, int, int, float]
"""Who waited, for whom, in which step, and for how many ms."""

RANKS = 3


def varying_ms(waits: list[Wait], n_steps: int) -> list[float]:
    """Return how long others waited for each rank, and for none, beyond what each waited in most steps."""
    of: Any = SimpleNamespace(shape=Shape(n_steps, RANKS))
    by, owner, step, ms = (np.array(column) for column in zip(*waits, strict=True))
    return _varying_ms(of, owner, by, step, ms.astype(np.float64)).tolist()


def test_what_a_rank_waits_for_another_in_most_steps_does_not_vary() -> None:
    waits = [(0, 1, step, ms) for step, ms in enumerate([2.0, 2.0, 9.0, 2.0, 2.0])]
    assert varying_ms(waits, n_steps=5) == pytest.approx([0.0, 7.0, 0.0, 0.0])


def test_the_waits_of_a_rank_in_one_step_are_one() -> None:
    waits = [(0, 1, step, 1.0) for step in range(4) for _ in range(3)]
    assert varying_ms([*waits, (0, 1, 2, 5.0)], n_steps=4) == pytest.approx([0.0, 5.0, 0.0, 0.0])


def test_waits_in_half_of_the_steps_do_not_recur_those_in_more_do() -> None:
    in_half = [(0, 1, step, 2.0) for step in range(3)]
    assert varying_ms(in_half, n_steps=6)[1] == pytest.approx(6.0)
    assert varying_ms([*in_half, (0, 1, 5, 2.0)], n_steps=6)[1] == pytest.approx(0.0)


def test_where_most_waits_are_short_only_that_much_recurs() -> None:
    waits = [(0, 1, step, ms) for step, ms in enumerate([4.0, 4.0, 1.0, 1.0])]
    assert varying_ms(waits, n_steps=4)[1] == pytest.approx(6.0)


def test_what_recurs_is_told_of_each_pair_of_ranks_for_itself() -> None:
    waits = [(by, owner, step, 1.0 + by) for step in range(4) for by, owner in ((0, 1), (2, 1), (0, RANKS))]
    assert varying_ms(waits, n_steps=4) == pytest.approx([0.0] * 4)
    more = [(0, 1, 0, 5.0), (2, 1, 1, 6.0), (0, RANKS, 2, 7.0)]
    assert varying_ms([*waits, *more], n_steps=4) == pytest.approx([0.0, 11.0, 0.0, 7.0])
