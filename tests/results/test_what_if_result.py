"""What is said of a run with something repaired."""

from __future__ import annotations

import pytest

from timing_logger.results.what_if import WhatIf


@pytest.mark.parametrize(("run_ms", "share"), [(200.0, 0.05), (0.0, 0.0), (-1.0, 0.0)])
def test_the_gain_is_told_as_a_fraction_of_the_run_if_that_took_time(run_ms: float, share: float) -> None:
    answer = WhatIf(
        fixes=(), run_ms=run_ms, gain_ms=10.0, gain_low_ms=9.0, gain_high_ms=11.0, assumed_gain_ms=None,
        slowest=None, why_unjudged=None, plays_again=True,
    )  # fmt: skip
    assert answer.gain_share == share
