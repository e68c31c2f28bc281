"""What a comparison says of changes, beside what it took to judge them."""

from __future__ import annotations

import pytest
from compared_runs import comparison, summary

from timing_logger.results.comparison import PartChange, Side


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
