"""Shares of a comparison are told with the digits that say something."""

from __future__ import annotations

import pytest

from timing_logger.report.comparison_wording import _percent


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (0.1234, "12.3%"), (-0.1234, "-12.3%"), (9.9949, "999.5%"), (10.0, "1,000%"), (-10.0, "-1,000%"),
        (9999.0, "999,900%"), (1e4, "1e+06%"),
    ],
)  # fmt: skip
def test_a_large_share_has_no_decimals_and_a_huge_one_only_its_magnitude(part: float, text: str) -> None:
    assert _percent(part) == text
