"""How much there was to do, by what exchanges brought."""

from __future__ import annotations

import numpy as np
import pytest

from timing_logger.analysis.step_times.workload import StepsWorkload, workload_of
from timing_logger.analysis.table_types import Floats


def of_exchanges(most: float) -> Floats | None:
    """Return the work of ten steps of two ranks, of which one got ``most`` times the mean in each."""
    brought = np.tile([most, 2 - most], 10)
    found = StepsWorkload({}, None, np.stack([brought, np.ones(20)]), {})
    return workload_of(found, lambda entries: entries.reshape(10, 2)).of_step


def test_exchanges_that_bring_one_rank_more_tell_how_much_it_had_to_do() -> None:
    work = of_exchanges(1.06)
    assert work is not None
    assert work[0] == pytest.approx([1.06, 0.94])


def test_exchanges_that_are_even_within_5_percent_tell_nothing() -> None:
    assert of_exchanges(1.04) is None
