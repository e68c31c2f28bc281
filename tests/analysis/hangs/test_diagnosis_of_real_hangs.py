"""Four ranks hang and are killed: what is left names the right one. ``make faults`` tries more, twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hang_runner import CULPRIT, OTHERS, hang
from processes import run_python

pytestmark = [
    pytest.mark.slow("ranks hang five times, as in make faults; test_diagnosis has the files of such runs"),
    pytest.mark.serial,
]


def answer(command: str, *arguments: object) -> str:
    run = run_python("import sys; from timing_logger.cli import main; main()", command, *arguments)
    assert all("added that its process had not written" in line for line in run.stderr.splitlines()), (
        run.stderr
    )
    return run.stdout


def who_hangs(log_dir: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(answer("hang", log_dir, "--json"))
    return told


@pytest.mark.parametrize(("scenario", "backend"), [("never-arrives", "mpi"), ("stuck-in-c", "gloo")])
def test_the_rank_that_never_came_is_named(scenario: str, backend: str, tmp_path: Path) -> None:
    hang(scenario, backend, tmp_path, for_s=0.5)
    told = who_hangs(tmp_path)
    (group,) = told["groups"]
    assert (group["operation"], group["inside"], group["missing"]) == ("ALLREDUCE", OTHERS, [CULPRIT])
    assert told["culprits"] == [CULPRIT]
    for command in ("stragglers", "summary"):
        assert f"Rank {CULPRIT} " in answer(command, tmp_path)
    assert "healthy" not in answer("stragglers", tmp_path)


def test_ranks_in_different_collectives_wait_for_each_other(tmp_path: Path) -> None:
    hang("another-collective", "gloo", tmp_path, for_s=0.5)
    told = who_hangs(tmp_path)
    found = {group["operation"]: (group["inside"], group["missing"]) for group in told["groups"]}
    assert found == {"ALLREDUCE": (OTHERS, [CULPRIT]), "BARRIER": ([CULPRIT], OTHERS)}
    assert CULPRIT in told["circle"]


def test_a_rank_that_brings_another_size_is_named(tmp_path: Path) -> None:
    hang("another-size", "mpi", tmp_path, for_s=0.5)
    told = who_hangs(tmp_path)
    (group,) = (group for group in told["groups"] if group["operation"] == "REDUCE")
    assert "sizes differ" in group["mismatch"]
    assert group["odd"] == told["culprits"] == [CULPRIT]


def test_a_rank_that_died_is_named_by_the_errors_of_the_others(tmp_path: Path) -> None:
    hang("died", "gloo", tmp_path, for_s=0.5)
    told = who_hangs(tmp_path)
    (group,) = told["groups"]
    assert (sorted(map(int, group["failed"])), group["missing"]) == (OTHERS, [CULPRIT])
    assert "healthy" not in answer("stragglers", tmp_path)
