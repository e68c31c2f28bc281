"""Commands name the code that ran, where a folder has stack samples."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path

import pytest
from places import SAMPLE

from timing_logger import read_timings
from timing_logger.cli import main
from timing_logger.schema.timing_files import HEADER

IN_DATA = "Of 33 stack samples of rank 2 in DATA, all are in augment (project/data.py:34)."


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return the sample, in which rank 2 was in one line whenever it is in ``DATA``."""
    folder = tmp_path / "logs"
    shutil.copytree(SAMPLE, folder)
    (folder / "stacks-rank2.csv").write_text(samples())
    return folder


@cache
def samples() -> str:
    rows = read_timings(SAMPLE)
    its = rows[(rows["rank"] == 2) & (rows["operation"] == "DATA")]
    middle = (its["start_counter"] + its["end_counter"]) / 2
    return HEADER + "".join(f"{at:.6f},augment,project/data.py,34,\n" for at in middle)


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main([*map(str, arguments)]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_the_verdict_says_in_which_code_the_named_rank_lost_its_time(
    logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert IN_DATA in printed(capsys, "stragglers", logs)


@pytest.mark.slow(
    "tests/analysis/accounting/test_stack_code.py has these rows, and the verdict is told of them above"
)
def test_json_has_the_rows_behind_it(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = json.loads(printed(capsys, "stragglers", logs, "--json"))["code"]
    assert (row["rank"], row["operation"], row["function"], row["line"]) == (2, "DATA", "augment", 34)
    assert (row["samples"], row["share"]) == (33, 1.0)


@pytest.mark.slow("a whole report; the verdict says it above")
def test_the_page_says_it_below_the_verdict(logs: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(logs), "-o", str(page)]) == 0
    assert IN_DATA in page.read_text()


@pytest.mark.slow("tests/report/test_run_code.py has samples of whom a verdict tells")
def test_a_rank_that_has_no_part_in_the_verdict_is_not_told_of(
    logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (logs / "stacks-rank2.csv").rename(logs / "stacks-rank1.csv")
    assert "stack sample" not in printed(capsys, "stragglers", logs)


@pytest.mark.slow("tests/reading leaves such a file out; verdicts without samples are in test_questions.py")
def test_samples_that_cannot_be_read_cost_no_answer(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (logs / "stacks-rank2.csv").write_text("a,b\n1,2\n")
    found = printed(capsys, "stragglers", logs)
    assert "Verdict: rank 2" in found
    assert "stack sample" not in found
