"""Commands read what hosts counted beside the timings, and say what coincides with the time that is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from runs_with_counters import WAIT, write_run_with_counters

from timing_logger import read_host_counters, read_timings
from timing_logger.analysis import stragglers
from timing_logger.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run_with_counters(tmp_path_factory.mktemp("run"))


def _said(capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
    assert main(["stragglers", *map(str, arguments)]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_the_verdict_states_what_coincides(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = _said(capsys, folder)
    assert "Verdict: rank 2 costs this run" in said
    assert "slow steps, rank 2 waited for a processor, typically" in said
    assert "Looked at for what coincides" not in said


@pytest.mark.slow("tests/report has the sentence, and the question why is asked without counters below")
def test_why_adds_what_was_looked_at(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Looked at for what coincides: " in _said(capsys, folder, "--why")


@pytest.mark.slow("the verdict states the cause above, and live/test_collector_counters.py has its fields")
def test_json_has_the_figures_of_the_cause(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cause = json.loads(_said(capsys, folder, "--json"))["cause"]
    assert (cause["name"], cause["counter"], cause["ranks"]) == ("processor-wait", WAIT, [2])
    assert 0 < cause["chance"] <= 0.01


@pytest.mark.slow("the command reads the files by the same functions, and its JSON has the cause")
def test_a_program_that_reads_the_files_is_told_the_same(folder: Path) -> None:
    verdict = stragglers(read_timings(folder), host=read_host_counters(folder))
    assert verdict.cause is not None
    assert (verdict.cause.name, verdict.cause.ranks) == ("processor-wait", (2,))


@pytest.mark.slow("a whole report; what its parts say of a cause is quick")
def test_the_page_states_it_under_its_headline(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(folder), "-o", str(page)]) == 0
    assert page.read_text(encoding="utf-8").count("What coincides: in ") == 1


def test_without_counters_a_slow_rank_is_named_all_the_same(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in folder.glob("timing-*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    said = _said(capsys, tmp_path, "--why")
    assert "Verdict: rank 2 costs this run" in said
    assert "oincides" not in said
    assert "No host counters were looked at." in said


@pytest.mark.slow("tests/analysis repairs causes; that the command reads the counters is held by the verdict")
def test_what_if_repairs_a_cause_that_host_counters_show(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["what-if", str(folder), "--fix", "cause=processor-wait", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    by_name = {row["fix"]: row["gain_ms"] for row in found["repairs"]}
    assert by_name["cause=processor-wait"] == pytest.approx(found["answer"]["gain_ms"])
    assert found["answer"]["gain_ms"] == pytest.approx(by_name["rank=2"], rel=0.15)
