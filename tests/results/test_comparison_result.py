"""What a comparison says of changes, beside what it took to judge them."""

from __future__ import annotations

import math

import pytest
from compared_runs import comparison, summary

from timing_logger.analysis.comparison.between_runs import as_part
from timing_logger.results.comparison import PartChange, Side


@pytest.mark.parametrize(
    ("log_change", "part"),
    [(0.0, 0.0), (math.log(1.05), 0.05), (math.log(2), 1.0), (math.log(0.5), -0.5), (-800.0, -1.0)],
)
def test_a_difference_of_logarithms_is_told_as_a_fraction(log_change: float, part: float) -> None:
    assert as_part(log_change) == pytest.approx(part)


def test_what_is_infinite_stays_so_and_what_is_finite_too() -> None:
    assert (as_part(math.inf), as_part(-math.inf)) == (math.inf, -math.inf)
    assert 1e300 < as_part(1e4) < math.inf


def test_by_how_much_a_step_changed_is_told_by_what_the_verdict_is_based_on() -> None:
    shown, hidden = (PartChange("transfer", 9.0, 5.0, 4.0, 3.0, 5.0, is_shown) for is_shown in (True, False))
    assert comparison(basis="step", parts=(shown,)).shown_ms == pytest.approx(10.0)
    assert comparison(basis="account", parts=(shown, hidden, shown)).shown_ms == pytest.approx(8.0)
    assert comparison(basis="", parts=(shown,)).shown_ms == 0.0


def test_what_sources_do_not_tell_is_put_together_from_the_runs_of_both_sides() -> None:
    told = [{"otf2": ["stacks", "work"]}, {"otf2": ["work", "bytes"], "kineto": ["seq"]}, {}]
    runs = [summary(not_told=one) for one in told]
    found = comparison(here=Side(runs[:1], 1), against=Side(runs[1:], 2)).not_told
    assert found == {"otf2": ["stacks", "work", "bytes"], "kineto": ["seq"]}
