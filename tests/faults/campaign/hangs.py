"""Hangs four ranks and kills them: the files that are left name the rank that the others wait for. (P14)"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from hang_runner import BACKENDS, CULPRIT, OTHERS, SCENARIOS, hang

from campaign.trial import Trial, Untried

_HANGS_FOR_S = 3.0
_SHORT = (("died", "gloo"),)


def hangs(trial: Trial) -> str:
    """Check that ``timing-logger hang LOGDIR --json`` names the rank that all others wait for."""
    if not has_command("hang"):
        raise Untried("the command `hang` is not there yet")
    pairs = [(scenario, backend) for scenario in SCENARIOS for backend in BACKENDS]
    for number in range(trial.times(2, 1)):
        for scenario, backend in _SHORT if trial.short else pairs:
            with trial.new_folder() as folder, trial.one(f"{scenario} over {backend}, {number}"):
                hang(scenario, backend, folder / "logs", _HANGS_FOR_S)
                _check(scenario, _answer(folder / "logs"))
    return "" if trial.short else f"{', '.join(SCENARIOS)}; each with {' and '.join(BACKENDS)}"


def _check(scenario: str, answer: dict[str, Any]) -> None:
    """Check that the culprit is named: alone, or in both groups if two groups wait for each other."""
    assert answer["groups"], "no group is said to hang"
    if scenario == "another-collective":
        sides = {(tuple(group["inside"]), tuple(group["missing"])) for group in answer["groups"]}
        others = tuple(OTHERS)
        assert {(others, (CULPRIT,)), ((CULPRIT,), others)} <= sides, f"{answer['groups']}"
        assert CULPRIT in answer["circle"], f"the circle is {answer['circle']}"
    else:
        assert answer["culprits"] == [CULPRIT], f"{answer['culprits']} are named: {answer['groups']}"


def has_command(name: str) -> bool:
    """Tell whether ``timing-logger`` has the command ``name``."""
    command = [sys.executable, "-m", "timing_logger", name, "--help"]
    return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0


def _answer(folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "timing_logger", "hang", str(folder), "--json"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode in (0, 1), run.stderr
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer
