"""What a clock costs is held against the frequency that is usual where nothing holds it down."""

from __future__ import annotations

import numpy as np
import pytest

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.verdict.causes.seen import _comparable
from timing_logger.schema.host_counters import BY_NAME

CLOCK = BY_NAME["gpu_sm_mhz"]


def lost(n_fast: int) -> Floats:
    """Return the share of the time that each of 100 stretches lost; some had 2000 MHz, the others 1500."""
    mhz = np.where(np.arange(100) < n_fast, 2000.0, 1500.0)
    return _comparable(CLOCK, mhz[:, None], np.ones((100, 1)))[:, 0]


def test_the_clock_that_one_stretch_in_five_has_is_what_others_could_have() -> None:
    assert lost(20)[-1] == pytest.approx(0.25)


def test_a_clock_that_one_stretch_in_twenty_has_is_no_usual_one() -> None:
    assert lost(5).max() == 0.0
