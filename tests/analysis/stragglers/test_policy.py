"""The policy of verdicts: its numbers are checked, and each of them decides something."""

from __future__ import annotations

import math
import re
import subprocess
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
from timing_logger.report.verdict_text import stragglers_text

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
    factor = factors(60, 4, noise=0.02)
    factor[:, 1] *= 1.2
    timings, strict = data_parallel(factor), Policy(min_score_gap=0.5)
    assert stragglers(timings).ranks == (1,)
    assert stragglers(timings, policy=strict).ranks == ()
    assert len(windows(timings)) > len(windows(timings, policy=strict)) == 0
    assert not scores(timings)["flagged"].any()
    assert scores(timings, policy=Policy(flagged_score=0.9))["flagged"].any()
    both = stragglers_and_windows(timings, policy=strict)
    assert (both.verdict.ranks, len(both.windows)) == ((), 0)


# -- where they are shown --------------------------------------------------------------------------------


def test_the_page_has_the_tables_of_the_numbers(tmp_path: Path) -> None:
    copy = tmp_path / "stragglers-numbers.md"
    copy.write_text(NUMBERS.replace("| Transfers |", "| Yesterday's |"), encoding="utf-8")
    made = subprocess.run([sys.executable, "website/numbers_page.py", str(copy)], cwd=ROOT, check=False)
    assert made.returncode == 0
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


def test_every_number_has_an_example() -> None:
    assert list(EXAMPLES) == [field.name for field in fields(Policy)]


def _parameter(name: str, row: Any, *, is_first: bool) -> Any:
    example = Example(*row, verdict) if len(row) == 4 else Example(*row)
    marks = () if is_first else (pytest.mark.slow("the first example shows that the number decides"),)
    return pytest.param(name, example, id=f"{name}-{row[2]}", marks=marks)


@pytest.mark.parametrize(
    ("name", "example"),
    [_parameter(name, row, is_first=row is rows[0]) for name, rows in EXAMPLES.items() for row in rows],
)
def test_with_another_number_another_is_said(name: str, example: Example) -> None:
    assert example.said_by(Policy(), Policy(**{name: example.other})) == (example.said, example.then)
