"""What decided a verdict: its conditions, and the numbers of the policy."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from timing_logger.analysis import Gate, RunEnd, Verdict
from timing_logger.report._limits import MOST_LINES
from timing_logger.report.verdict import _gates_text, _policy_text, stragglers_text
from timing_logger.results.policy import Policy
from timing_logger.results.verdict import Suspect

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


# -- what of many is shown -------------------------------------------------------------------------------


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def suspects(n: int) -> Verdict:
    return Verdict(
        verdict="suspect", suspects=tuple(Suspect((rank,), f"op{rank}", 0.25, 0.75) for rank in range(n))
    )


def windows(n: int) -> pd.DataFrame:
    return pd.DataFrame({"rank": range(n), "operation": "DATA", "kind": "bounded", "excess_ms": 7.25})


@pytest.mark.parametrize("everything", [True, False])
def test_of_many_suspects_and_windows_the_first_are_shown_or_all_if_asked_for(everything: bool) -> None:
    said = stragglers_text(suspects(MOST_LINES + 1), windows(MOST_LINES + 2), 200, everything=everything)
    assert (
        "Of 21 suspects these are the 20 that come first; 1 are left out." in flat(said)
    ) is not everything
    assert ("Of 22 windows these are the 20 of the greatest excess" in flat(said)) is not everything
    assert (
        f"op{MOST_LINES}" in said,
        any(line.split()[:2] == ["21", "DATA"] for line in said.splitlines()),
    ) == (everything, everything)


def test_a_suspect_has_its_part_of_the_lost_time_and_how_likely_it_is() -> None:
    lines = stragglers_text(suspects(1), windows(0), 200).splitlines()
    (row,) = (line.split() for line in lines if "op0" in line and line.startswith("0 "))
    assert row == ["0", "op0", "25.0%", "75.0%"]


@pytest.mark.parametrize("n", [0, 1])
def test_what_excess_means_is_said_only_below_windows(n: int) -> None:
    said = stragglers_text(Verdict(verdict="healthy"), windows(n), 200)
    assert ("excess: what a rank took" in said) is bool(n)


@pytest.mark.parametrize("why", [True, False])
def test_what_was_looked_at_and_the_numbers_are_told_where_that_is_asked_for(why: bool) -> None:
    said = stragglers_text(Verdict(verdict="healthy"), windows(0), 200, why=why)
    assert ("No host counters were looked at." in said) is why
    assert ("The numbers that decide" in said) is why


def test_a_bad_end_comes_before_the_verdict_and_the_code_after_it() -> None:
    end = RunEnd(state="unfinished", sentences=("It broke off.", "More."))
    said = stragglers_text(Verdict(verdict="healthy", end=end), windows(0), 200, code=["Such code ran."])
    assert said.startswith("It broke off.\n\nVerdict: no rank is slow.")
    assert "\nSuch code ran.\n" in said
