"""What decided a verdict: its conditions, and the numbers of the policy."""

from __future__ import annotations

import pytest

from timing_logger.analysis import Gate, Verdict
from timing_logger.analysis.stragglers.policy import Policy
from timing_logger.report.verdict_text import _gates_text, _policy_text

GATES = (Gate("share of the run", 0.2, 0.01, True),)


def test_conditions_are_shown_where_that_is_asked_for_and_else_how_to_ask() -> None:
    decided = Verdict(verdict="healthy", gates=GATES)
    assert _gates_text(decided, 100, why=False) == "--why shows the conditions that decided this."
    assert "share of the run" in _gates_text(decided, 100, why=True)
    assert _gates_text(Verdict(verdict="healthy"), 100, why=True) == ""
    assert _gates_text(Verdict(verdict="healthy"), 100, why=False) == ""


@pytest.mark.parametrize(
    ("share", "told"),
    [(0.02, "* min_cost_share 0.02 (standard 0.01): "), (0.01, "min_cost_share 0.01: ")],
)
def test_a_number_that_is_not_the_standard_one_is_marked_and_has_the_standard_one_beside_it(
    share: float, told: str
) -> None:
    lines = "\n".join(_policy_text(Policy(min_cost_share=share), 500)).splitlines()
    assert [line for line in lines if "min_cost_share" in line and line.startswith(told)]
    assert sum(" (standard " in line for line in lines) == (share != 0.01)
