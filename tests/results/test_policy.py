"""The policy of verdicts: its numbers are checked, and each of them decides something."""

from __future__ import annotations

import math
import re
import runpy
import sys
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import ROOT
from policy_examples import EXAMPLES
from policy_runs import Example, verdict
from simulated_runs import data_parallel, factors

from timing_logger.analysis import Policy, scores, stragglers, stragglers_and_windows, windows
from timing_logger.errors import ConfigurationError
from timing_logger.report.verdict import stragglers_text

PAGE = (ROOT / "docs" / "stragglers.md").read_text(encoding="utf-8")
NUMBERS = (ROOT / "docs" / "stragglers-numbers.md").read_text(encoding="utf-8")

# -- the numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("min_cost_share", -0.01, "a number from 0 to 1"),
        ("min_cost_share", 1.01, "a number from 0 to 1"),
        ("min_cost_share", math.nan, "a number from 0 to 1"),
        ("min_cost_share", "0.02", "a number from 0 to 1"),
        ("min_cost_share", None, "a number from 0 to 1"),
        ("min_score_gap", 0.0, "a number between 0 and 1, both excluded"),
        ("flagged_score", 1.0, "a number between 0 and 1, both excluded"),
        ("min_z", 0.0, "a finite number above 0"),
        ("min_z", math.inf, "a finite number above 0"),
        ("min_transfer_times", 1.0, "a finite number above 1"),
        ("min_slow_steps", 0, "a whole number from 1 on"),
        ("min_slow_steps", 20.0, "a whole number from 1 on"),
        ("min_slow_steps", True, "a whole number from 1 on"),
    ],
)
def test_a_number_out_of_its_range_is_named_with_what_it_may_be(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Policy(**{name: value})
    assert str(raised.value).startswith(f"{name}: {value!r} is not {allowed}. Leave it out for the default, ")


def test_the_bounds_of_a_range_are_in_it_and_numbers_of_numpy_are_numbers() -> None:
    policy = Policy(min_cost_share=0, max_lost_share=1, min_slow_steps=np.int64(1), min_z=np.float64(2))
    assert (policy.min_cost_share, policy.min_slow_steps) == (0, 1)


def test_a_policy_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Policy().min_z = 2.0  # type: ignore[misc]


def test_every_analysis_of_slow_ranks_goes_by_the_policy() -> None:
    factor = factors(30, 4, noise=0.02)
    factor[:, 1] *= 1.2
    timings, strict = data_parallel(factor), Policy(min_score_gap=0.5)
    standard = stragglers_and_windows(timings)
    assert (standard.verdict.ranks, stragglers(timings, policy=strict).ranks) == ((1,), ())
    assert len(standard.windows) > len(windows(timings, policy=strict)) == 0
    assert not scores(timings)["flagged"].any()
    assert scores(timings, policy=Policy(flagged_score=0.9))["flagged"].any()
    both = stragglers_and_windows(timings, policy=strict)
    assert (both.verdict.ranks, len(both.windows)) == ((), 0)


# -- where they are shown --------------------------------------------------------------------------------


def test_the_page_has_the_tables_of_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "stragglers-numbers.md"
    copy.write_text(NUMBERS.replace("| Transfers |", "| Yesterday's |"), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["made_tables.py", "numbers", str(copy)])
    runpy.run_path(str(ROOT / "website" / "made_tables.py"), run_name="__main__")
    assert copy.read_text(encoding="utf-8") == NUMBERS, "make numbers rewrites it"


def test_what_the_page_says_of_a_number_is_so() -> None:
    policy, said = Policy(), re.findall(r"(\d[\d.]*)(%?) \(`(\w+)`\)", PAGE + NUMBERS)
    assert len(said) > 30
    for number, percent, name in said:
        assert float(number) / (100 if percent else 1) == pytest.approx(getattr(policy, name)), name


def test_why_shows_every_number_with_its_reason_and_marks_those_that_differ() -> None:
    found = stragglers_and_windows(data_parallel(factors(30, 4)), policy=Policy(min_bursts=4))
    shown = stragglers_text(found.verdict, found.windows, 80, why=True)
    assert max(map(len, shown.splitlines())) <= 80
    assert "\n* min_bursts 4 (standard 2): So many slow stretches of a rank" in shown
    for field in fields(Policy):
        assert re.search(rf"^(\* )?{field.name} ", shown, re.MULTILINE)
        assert field.metadata["reason"] in " ".join(shown.split())  # as the page says, which has no reasons
    assert shown.count("\n* ") == 1


def test_a_verdict_has_its_policy_and_json_what_differs_in_it() -> None:
    strict = Policy(min_z=5, min_bursts=4)
    verdict = stragglers(data_parallel(factors(10, 2)), policy=strict)
    assert verdict.policy == strict
    assert verdict.as_dict()["policy"] == {"min_z": 5, "min_bursts": 4}


# -- what each decides ---------------------------------------------------------------------------------


BY_HAND = {
    "min_score_gap", "flagged_score", "min_noise_sigma", "min_level_steps", "min_slower_steps_share",
    "max_chance", "max_suspected_chance", "very_slow_times", "min_steps_alone", "edge_steps_share",
    "interval_shift_share", "min_compared_stretches", "min_step_share", "min_slow_steps",
    "min_costly_slow_steps", "min_cost_share", "visible_cost_share", "suspected_score_gap", "few_steps",
    "min_score_gap_of_few", "min_waited_share", "min_late_to_leave_share", "min_bursts",
    "min_peers_for_spread", "half_gap_share", "min_explained_share", "min_probably_explained_share",
    "min_likelihood", "max_slow_share_of_role", "max_crowded_steps_share", "min_lockstep_correlation",
    "min_level_ratio", "min_lockstep_steps", "min_shared_steps_share", "max_apart_correlation",
    "min_host_share", "min_role_work_share", "most_waiting_share", "min_growth_steps",
    "min_work_difference", "max_growth_error", "min_explained_by_work", "max_explained_by_work",
    "min_slower_ranks_share", "min_past_steps", "max_lost_share", "min_transfer_times",
    "min_transfer_cost_share", "min_transfer_cost_ms", "mostly_transfers_share", "min_transfer_steps",
    "min_costly_transfer_steps", "min_alike_links", "max_slow_links_share", "event_block_times",
    "min_change_z", "min_change_z_growth", "interval_length_ratio", "max_replay_error_share",
    "min_alike_ranks", "min_work_share", "min_outdoing_times", "min_common_stretches", "max_cause_chance",
    "min_covered_share", "min_cause_correlation", "min_transfer_noise_sigma", "max_transfer_times",
    "quick_transfers_share",
}  # fmt: skip
"""The numbers of which another fails a test of the function that uses it, on figures made by hand."""


def test_every_number_has_an_example() -> None:
    assert list(EXAMPLES) == [field.name for field in fields(Policy)]
    assert set(EXAMPLES) > BY_HAND


def _parameter(name: str, row: Any, *, is_first: bool) -> Any:
    example = Example(*row, verdict) if len(row) == 4 else Example(*row)
    marks = [] if is_first else [pytest.mark.slow("the first example shows that the number decides")]
    if name in BY_HAND:
        marks.append(pytest.mark.slow("a test of the function that uses the number holds it by hand"))
    return pytest.param(name, example, id=f"{name}-{row[2]}", marks=marks)


@pytest.mark.parametrize(
    ("name", "example"),
    [_parameter(name, row, is_first=row is rows[0]) for name, rows in EXAMPLES.items() for row in rows],
)
def test_with_another_number_another_is_said(name: str, example: Example) -> None:
    assert example.said_by(Policy(), Policy(**{name: example.other})) == (example.said, example.then)
