"""A run that hung is never called healthy, and who is missing is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hung_runs import END_S, HUNG_S, WORLD, Rank, trained, waiting, write_run
from timing_files import record

from timing_logger import read_timings
from timing_logger.analysis import hang
from timing_logger.cli import main
from timing_logger.report.html.page import report_html


def test_a_rank_that_never_arrives_is_named_with_what_it_did_last(tmp_path: Path) -> None:
    stuck = Rank(sidecar={"idle_stack": ["train.py:88 in load_batch", "train.py:120 in main"]})
    end = hang(read_timings(write_run(tmp_path, waiting(), waiting(), stuck, waiting())))
    (group,) = end.groups
    assert (group.group, group.seq, group.operation) == (WORLD, 10, "ALLREDUCE")
    assert (group.inside, group.missing, group.since_s) == ((0, 1, 3), (2,), HUNG_S)
    assert (end.state, end.ended, end.culprits) == ("hang", False, (2,))
    assert end.sentences[:2] == (
        "Rank 2 never entered ALLREDUCE 10 of MPI_COMM_WORLD, in which ranks 0, 1 and 3 have been for 118 s.",
        "Rank 2 was last seen at train.py:88 in load_batch; the last that it recorded was ALLREDUCE of "
        "iteration 9 (bucket0), 118 s before the run's last sign of life.",
    )


def test_the_command_says_it_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(tmp_path, waiting(), waiting(), Rank(), waiting())
    assert main(["hang", str(folder)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "Rank 2 never entered ALLREDUCE 10 of MPI_COMM_WORLD, in which ranks 0, 1 and 3 have"
    )
    assert main(["hang", str(folder), "--json", "--fail-on", "hang"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["ended"]
    (group,) = found["groups"]
    named = {
        name: group[name]
        for name in ("group", "seq", "operation", "inside", "missing", "since_s", "mismatch")
    }
    assert named == {
        "group": WORLD, "seq": 10, "operation": "ALLREDUCE", "inside": [0, 1, 3], "missing": [2],
        "since_s": 118.0, "mismatch": "",
    }  # fmt: skip


@pytest.mark.parametrize("command", ["stragglers", "summary"])
def test_no_command_calls_it_healthy(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_run(tmp_path, waiting(), waiting(), Rank(), waiting())
    assert main([command, str(folder)]) == 0
    said = capsys.readouterr().out
    assert "Rank 2 never entered ALLREDUCE 10" in said
    assert "healthy" not in said


def test_whoever_watches_reads_who_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    goes_on = Rank([*trained(), record("FORWARD", END_S - 1, 900.0, iteration=10)], progressed_s=END_S)
    write_run(tmp_path, waiting(), waiting(), goes_on, waiting())
    assert main(["watch", "--once", str(tmp_path)]) == 0
    assert "Rank 2 never entered ALLREDUCE 10" in capsys.readouterr().out


def test_the_page_says_it_at_its_top(tmp_path: Path) -> None:
    timings = read_timings(write_run(tmp_path, waiting(), waiting(), Rank(), waiting()))
    page = report_html(timings)
    said = page.index("Rank 2 never entered ALLREDUCE 10 of MPI_COMM_WORLD")
    assert said < page.index('id="verdict"')
    assert "No rank is slow" not in page
