"""Which steps show how slow a rank is: not those in which there was hardly anything to do."""

from __future__ import annotations

import numpy as np
import pytest

from timing_logger.analysis.verdict.who.candidates import _take_hardly_any_time
from timing_logger.results.policy import Policy


@pytest.mark.parametrize(("n_long", "are_left_out"), [(30, True), (20, False)])
def test_short_steps_show_nothing_if_a_quarter_of_all_steps_is_far_longer(
    n_long: int, are_left_out: bool
) -> None:
    policy = Policy()
    its_ms = np.full((100, 4), 0.9 * policy.min_step_share * 100.0)
    its_ms[:n_long] = 100.0
    left_out = _take_hardly_any_time(its_ms, policy)
    assert left_out.tolist() == [False] * n_long + [are_left_out] * (100 - n_long)
