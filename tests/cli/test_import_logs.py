"""``import`` makes timing files, says what could not be used, and answers say what is not known."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmark_outputs import OSU
from inspector_dumps import write_dumps
from places import ROOT
from step_logs import step_records, write_json_lines

from timing_logger.cli import main

SAMPLE = ROOT / "logs" / "sample"


def steps(tmp_path: Path, *options: str) -> list[str]:
    log = write_json_lines(tmp_path / "train.jsonl", step_records(), "cut", "cut")
    return ["import", "steps", str(log), "-o", str(tmp_path / "out"), "--seconds", "perf.step_s", *options]


def plain(text: str) -> str:
    return " ".join(text.split())


def test_what_was_made_and_left_out_and_is_not_told_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(steps(tmp_path, "--phases", "data, forward")) == 0
    said = plain(capsys.readouterr().out)
    assert "480 rows of 4 ranks, from steps." in said
    assert "The source does not tell the operations in which ranks wait for each other;" in said
    assert "2 records were left out of the import: 2 for a line that is no JSON." in said


@pytest.mark.parametrize("question", ["stragglers", "waits", "bandwidth", "overlap", "summary", "hang"])
def test_an_answer_says_what_it_would_need_that_the_source_does_not_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], question: str
) -> None:
    main(steps(tmp_path))
    capsys.readouterr()
    assert main([question, str(tmp_path / "out")]) == 0
    assert "Imported (steps), from what does not tell the operations in which" in plain(
        capsys.readouterr().out
    )


def test_the_page_says_it_too(tmp_path: Path) -> None:
    main(steps(tmp_path))
    assert main(["report", str(tmp_path / "out"), "-o", str(tmp_path / "page.html")]) == 0
    assert "Imported (steps), from what does not tell" in (tmp_path / "page.html").read_text()


def test_an_option_of_another_kind_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = steps(tmp_path)
    assert main([*command[:1], "kineto", *command[2:]]) == 2
    assert "--seconds is for import steps, and this is kineto." in capsys.readouterr().err


def test_a_kind_that_is_mistyped_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["import", "step", "x", "-o", "y"])
    assert "Did you mean 'steps'?" in capsys.readouterr().err


def test_bandwidth_says_how_much_of_what_a_benchmark_reached_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = tmp_path / "osu.txt"
    expected.write_text(OSU)
    assert main(["bandwidth", str(SAMPLE), "--expected", str(expected)]) == 0
    said = plain(capsys.readouterr().out)
    assert "of expected" in said
    assert "% of what the OSU benchmarks reached at this size." in said


def test_bandwidth_says_where_the_benchmark_measured_nothing_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = tmp_path / "osu.txt"
    expected.write_text("# OSU MPI Scatter Latency Test v7.5\n1024 3.0\n")
    assert main(["bandwidth", str(SAMPLE), "--expected", str(expected)]) == 0
    assert "Nothing here is an operation and a size that the OSU" in plain(capsys.readouterr().out)


@pytest.mark.parametrize("question", ["stragglers", "summary"])
def test_of_a_source_without_instants_no_step_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], question: str
) -> None:
    for verbose in (True, False):
        dumps = write_dumps(tmp_path / f"dumps{verbose}", 1, verbose=verbose)
        assert main(["import", "inspector", str(dumps), "-o", str(tmp_path / f"out{verbose}")]) == 0
        capsys.readouterr()
        assert main([question, str(tmp_path / f"out{verbose}")]) == 0
        assert (" step: " in capsys.readouterr().out) == verbose
