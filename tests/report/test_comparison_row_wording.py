"""One difference between two sides, as tables have it."""

from __future__ import annotations

import pytest

from timing_logger.report.comparison_row_wording import signed


@pytest.mark.parametrize(
    ("ms", "told"),
    [(1.234, "+1.23"), (-0.5, "-0.50"), (9_999_999.0, "+9999999.00"), (1e7, "+1e+07"), (-2e9, "-2e+09")],
)
def test_a_difference_has_its_sign_and_a_huge_one_only_its_magnitude(ms: float, told: str) -> None:
    assert signed(ms) == told
