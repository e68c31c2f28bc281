"""docs/compare.md: what it says of options is what the command line has, and its jobs can be read."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
from places import ROOT

from timing_logger.cli.parser import build_parser
from timing_logger.results import criteria
from timing_logger.results import run_summary as settings

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (pip install '.[test]')")

PAGE = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
EXPRESSION = re.compile(r"\$\{\{.*?\}\}|\$\w+|\\\n")


def commands() -> list[str]:
    text = re.sub(r"`[^`\n]+`", "", EXPRESSION.sub(" ", PAGE))
    return re.findall(r"timing-logger compare .*", text)


@pytest.mark.parametrize("command", commands())
def test_a_command_has_the_options_that_it_is_shown_with(command: str) -> None:
    build_parser().parse_args(shlex.split(command)[1:])  # exits if it has not


def test_the_page_shows_commands_for_each_ci() -> None:
    assert len(commands()) >= 5


def test_each_job_can_be_read_and_ends() -> None:
    action, steps, gitlab = map(yaml.safe_load, BLOCKS)
    assert action["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in action["jobs"].values())
    assert steps[0]["uses"].startswith("actions/cache@")
    assert gitlab["speed"]["timeout"]


def test_the_jobs_install_what_compare_needs() -> None:
    action, _, gitlab = map(yaml.safe_load, BLOCKS)
    installed: list[Any] = [step.get("run", "") for step in action["jobs"]["speed"]["steps"]]
    assert any("timing_logger[compare]" in line for line in installed)
    assert "timing_logger[compare]" in gitlab["speed"]["script"][0]


def test_the_page_states_the_numbers_that_decide() -> None:
    assert f"with {criteria.STEP_CONFIDENCE:.1%} confidence" in PAGE
    assert f"with {criteria.PARTS_CONFIDENCE:.1%} (Bonferroni)" in PAGE
    assert f"It takes {criteria.MIN_BATCHES} of them" in PAGE
    assert f"{settings.MOST_RANKS} or fewer" in PAGE
