"""docs/ci.md: what it says of options, exit codes and JSON is what the command line does."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from compared_runs import write_runs
from places import ROOT

from timing_logger.cli import main
from timing_logger.cli.option_values import CHANGES, ENDS, VERDICTS
from timing_logger.cli.parser import build_parser

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (pip install '.[test]')")

PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
SAMPLE = str(ROOT / "logs" / "sample")


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def steps() -> list[dict[str, Any]]:
    (job,) = yaml.safe_load(block("yaml"))["jobs"].values()
    return list(job["steps"])


def commands() -> list[str]:
    lines = [*PAGE.splitlines(), *(step.get("run", "") for step in steps())]
    return [line for line in lines if line.startswith("timing-logger ")]


@pytest.mark.parametrize("command", commands())
def test_a_command_has_the_options_that_it_is_shown_with(command: str) -> None:
    build_parser().parse_args(shlex.split(command.partition(">")[0])[1:])  # exits if it has not


def test_the_page_shows_commands() -> None:
    assert len(commands()) >= 7


@pytest.mark.parametrize(
    ("command", "known"), [("stragglers", VERDICTS), ("hang", ENDS), ("compare", CHANGES)]
)
def test_the_page_names_all_that_fail_on_takes(command: str, known: tuple[str, ...]) -> None:
    (cell,) = re.findall(rf"^\| `{command}` \| (.*)\(\[", PAGE, re.MULTILINE)
    assert re.findall(r"`([\w-]+)`", cell) == list(known)


OF_THE_SAME = pytest.mark.slow("the same command with and without its verdict in --fail-on is quick")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(["stragglers", SAMPLE], 0, marks=OF_THE_SAME),
        (["stragglers", "--fail-on", "role,hang,unjudged", SAMPLE], 0),
        (["stragglers", "--fail-on", "rank,role", SAMPLE], 1),
        pytest.param(["stragglers", "--json", "--fail-on", "rank,role", SAMPLE], 1, marks=OF_THE_SAME),
        (["hang", "--fail-on", "hang,unfinished", SAMPLE], 0),
        (["stragglers", SAMPLE + "/nowhere"], 2),
    ],
)
def test_the_exit_codes_are_those_of_the_page(arguments: list[str], code: int) -> None:
    assert main(arguments) == code


def test_what_the_page_shows_of_the_json_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(block("json"))
    main(["stragglers", "--json", SAMPLE])
    printed = json.loads(capsys.readouterr().out)
    printed["cost_share"] = round(printed["cost_share"], 4)
    assert {key: printed[key] for key in shown} == shown


BY_COMPARE = pytest.mark.slow("the exit codes of compare --fail-on are quick")


def runs(folder: Path, longer_ms: float = 0.0) -> str:
    """Write three runs of a program, and return them as the script takes them."""
    written = write_runs(folder, 3, noise=0.001, longer_ms={"FORWARD": longer_ms}, n_steps=8)
    return ",".join(map(str, written))


def code_of_the_script(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["-c", *arguments])
    with pytest.raises(SystemExit) as end:
        exec(block("python"), {"__name__": "__main__"})
    return end.value.code


@BY_COMPARE
def test_the_script_exits_with_1_if_steps_are_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    after, before = runs(tmp_path / "after", longer_ms=5.0), runs(tmp_path / "before")
    assert code_of_the_script(monkeypatch, after, before) == 1


@BY_COMPARE
def test_the_script_exits_with_0_if_they_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same, before = runs(tmp_path / "same"), runs(tmp_path / "before")
    assert code_of_the_script(monkeypatch, same, before) == 0


def test_the_workflow_may_do_no_more_than_read_and_ends() -> None:
    workflow = yaml.safe_load(block("yaml"))
    assert workflow["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())
