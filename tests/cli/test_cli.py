"""The command line prints the summary, for people and for programs, and fails without a traceback."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import warm
from late_ranks import late_by, noise, steps
from limits import PROCESS_S
from slow import slow
from timing_files import record, write_sidecar, write_timing_file

from timing_logger.cli import main
from timing_logger.schema.sidecar import Counters

COMMAND = ["-m", "timing_logger", "summary"]


def write_run(folder: Path, late: int | None = None) -> Path:
    """Four ranks of which one may come late to each allreduce."""
    for rank, records in enumerate(steps(noise if late is None else late_by(30, late))):
        waits = [record("WAIT", 1.0, 0.5, message_size_bytes=None, iteration=0)]
        write_sidecar(write_timing_file(folder, rank, records + waits))
    return folder


@pytest.fixture
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of a folder breaks no line, however long the path to it."""
    monkeypatch.setenv("COLUMNS", "300")


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["summary", *map(str, arguments)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


# -- for people -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_late_rank(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is printed of a run in which rank 2 comes late to each allreduce."""
    out = io.StringIO()
    with redirect_stdout(out), pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        assert main(["summary", str(write_run(tmp_path_factory.mktemp("late"), late=2))]) == 0
    return out.getvalue()


def test_the_late_rank_has_the_shortest_bar(of_late_rank: str) -> None:
    block = of_late_rank.partition("ALLREDUCE_DENSE")[2].split("\n\n")[0]
    bars = [line.count("#") for line in block.splitlines()]
    assert len(bars) == 4
    assert bars[2] * 4 < min(bars[0], bars[1], bars[3])


def test_whom_the_ranks_waited_for_most_is_stated_as_a_fact(of_late_rank: str) -> None:
    text = re.sub(r"\s+", " ", of_late_rank)
    assert "The ranks waited 3.60 s, 55.0% of their time: 100.0% for rank 2." in text


def test_the_parts_of_a_ranks_time_add_up_to_the_whole(of_late_rank: str) -> None:
    rows = [line.split()[4:] for line in of_late_rank.partition("rank  rows")[2].splitlines()[2:6]]
    assert [sum(round(10 * float(cell.rstrip("%"))) for cell in row) for row in rows] == [1000] * 4


@pytest.mark.usefixtures("wide_terminal")
def test_totals_and_counters_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, write_run(tmp_path), "--all").splitlines()
    assert lines[0] == f"{tmp_path}: 164 rows of 4 ranks"
    heads = [line.split() for line in lines]
    heads_of_ranks = "rank  rows  iterations  wall s  own work  not timed  transfer  waiting"
    assert any(line.startswith(heads_of_ranks) for line in lines)
    assert "file              rows     size  accepted  written  dropped  pending  closed" in lines
    (counters,) = [line for line in heads if line[:1] == ["timing-rank3.csv"]]
    assert [counters[1], *counters[4:]] == ["41", "41", "41", "0", "0", "yes"]


def test_no_line_is_wider_than_the_terminal(of_late_rank: str) -> None:
    assert max(map(len, of_late_rank.splitlines())) <= 80
    assert "\nALLREDUCE_DENSE  " in of_late_rank
    assert "…" not in of_late_rank


@pytest.mark.slow("the narrow terminal is the harder case")
def test_no_line_is_wider_than_a_wide_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    text = printed(capsys, write_run(tmp_path, late=1))
    assert max(map(len, text.splitlines())) <= 120
    assert "\nALLREDUCE_DENSE  " in text
    assert "…" not in text


def test_a_report_is_plain_ascii_where_it_is_no_terminals(of_late_rank: str) -> None:
    assert of_late_rank.isascii()
    assert "\x1b" not in of_late_rank


@pytest.mark.slow("what is printed in this process is plain ASCII, too; a pipe has no other text")
def test_a_piped_report_is_plain_ascii(tmp_path: Path) -> None:
    write_timing_file(write_run(tmp_path), 9, []).write_bytes(b"times")
    run = subprocess.run(
        [warm.python(), *COMMAND, tmp_path], capture_output=True, timeout=PROCESS_S, check=True
    )
    assert run.stdout.isascii()
    assert b"\x1b" not in run.stdout
    assert run.stderr == b""


def test_what_is_wrong_with_the_files_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = write_timing_file(tmp_path, 0, [record()])
    path = write_timing_file(tmp_path, 0, [record(), record()], incarnation=2)
    write_sidecar(path, counters=Counters(9, 5, 4, 0), closed=False)
    path.write_bytes(path.read_bytes() + b"rub\x1bbish\ntorn,12.3")
    write_timing_file(tmp_path, 1, [record(), record("H2D", elapsed_ms=None, status="unresolved")])
    text = re.sub(r"\s+", " ", printed(capsys, tmp_path))
    for remark in (
        "timing-rank0.run2.csv: its last line is not finished and was cut: 'torn,12.3'.",
        r"timing-rank0.run2.csv: 1 damaged line skipped, such as 'rub\u001bbish'.",
        "timing-rank0.run2.csv: 2 rows read, but its logger had written 5 when its sidecar was last written; "
        "it was not closed.",
        "timing-rank0.run2.csv: 4 records of 9 dropped, and in no file.",
        "H2D: 1 of 1 row with the status unresolved.",
        "timing-rank1.csv: no sidecar, so what was accepted or dropped is not known.",
        f"{old.name}: left out, timing-rank0.run2.csv of the same rank is newer.",
    ):
        assert remark in text


@pytest.mark.slow("tests/reading reads several folders; a command hands on what it is given")
@pytest.mark.usefixtures("wide_terminal")
def test_files_from_several_folders_are_summarised_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank, folder in enumerate(("a", "b")):
        write_timing_file(tmp_path / folder, rank, [record()])
    monkeypatch.chdir(tmp_path)
    assert printed(capsys, "a", tmp_path / "b").startswith(f"{tmp_path}: 2 rows of 2 ranks")


def test_files_that_are_whole_have_no_remarks(of_late_rank: str) -> None:
    assert of_late_rank.endswith("\n\n4 files: closed, every record written.\n")


def test_the_longest_operations_are_shown_and_the_others_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [record(f"WORK{n}", 1.0 + n, elapsed_ms=20.0 - n) for n in range(10)]
    write_sidecar(write_timing_file(tmp_path, 0, rows))
    text = printed(capsys, tmp_path)
    assert "WORK7" in text
    assert "WORK8" not in text
    assert "2 operations more, with 0.012 s or less on a rank: --all shows them." in text


@pytest.mark.slow("the totals above are of all; this is of more than are shown without")
def test_all_operations_are_shown_where_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [record(f"WORK{n}", 1.0 + n, elapsed_ms=20.0 - n) for n in range(10)]
    write_sidecar(write_timing_file(tmp_path, 0, rows))
    everything = printed(capsys, tmp_path, "--all")
    assert "WORK9" in everything
    assert "operations more" not in everything


@pytest.fixture(scope="module")
def of_two_incarnations(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is printed of two incarnations of a rank, which have an operation whose name is hostile."""
    folder, out = tmp_path_factory.mktemp("twice"), io.StringIO()
    for incarnation in (1, 2):
        write_timing_file(folder, 0, [record("\x1b[2J[/x]\ud800\n")], incarnation=incarnation)
    with redirect_stdout(out), pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "120")
        assert main(["summary", str(folder), "--run", "all"]) == 0
    return out.getvalue()


def test_all_incarnations_are_told_apart(of_two_incarnations: str, of_late_rank: str) -> None:
    assert "rank  run  rows" in of_two_incarnations
    assert "rank  run" not in of_late_rank


def test_names_cannot_reach_the_terminal(of_two_incarnations: str) -> None:
    assert "\x1b" not in of_two_incarnations
    assert "[/X]" in of_two_incarnations


@pytest.mark.parametrize("flag", [[], slow(["--json"], "of the same summary as the text")])
def test_a_file_without_rows_is_summarised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: list[str]
) -> None:
    write_timing_file(tmp_path, 0, [])
    assert printed(capsys, tmp_path, *flag) != ""


# -- for programs ---------------------------------------------------------------------------------


def test_json_holds_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    found = json.loads(printed(capsys, write_run(tmp_path, late=2), "--json"), parse_constant=refuse)
    assert set(found) == {
        "operations", "ranks", "spread", "statuses", "counters", "files", "left_out", "different_runs",
        "end", "account", "code", "not_told",
    }  # fmt: skip
    assert [row["rank"] for row in found["ranks"]] == [0, 1, 2, 3]
    assert [(row["operation"], row["rank"]) for row in found["operations"][:2]] == [
        ("ALLREDUCE_DENSE", 0), ("ALLREDUCE_DENSE", 1),
    ]  # fmt: skip
    assert found["operations"][0]["bytes"] == 40 * 4096
    assert found["operations"][-1]["bytes"] is None
    assert found["counters"][0]["written"] == found["files"][0]["rows"] == 41
    assert [row["least_rank"] for row in found["spread"] if row["stands_out"]] == [2]


# -- when it cannot ---------------------------------------------------------------------------------


def test_a_wrong_folder_is_an_error_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["summary", str(tmp_path / "nowhere")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("timing-logger: ")
    assert "nowhere' does not exist" in captured.err
    assert captured.err.count("\n") == 1


def test_an_unknown_command_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["summaries", "logs"])
    assert exit_.value.code == 2
    said = capsys.readouterr().err
    assert "invalid choice" in said
    assert said.endswith("Did you mean 'summary'?\n")


@pytest.mark.parametrize(
    ("typed", "end"),
    [("--wy", "--wy. Did you mean '--why'?\n"), ("--once", "unrecognized arguments: --once\n")],
    ids=["mistyped", "of another command"],
)
def test_what_a_mistyped_option_was_meant_to_be_is_said(
    typed: str, end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["stragglers", "logs", typed])
    assert capsys.readouterr().err.endswith(end)


def test_what_a_command_does_not_know_is_said_with_the_options_that_it_has(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["run", "-o", "logs", "--", "true"])
    said = capsys.readouterr().err
    assert said.startswith("usage: timing-logger run [-h] [--log-dir DIR]")
    assert said.endswith("timing-logger run: error: unrecognized arguments: -o\n")


def test_a_wrong_choice_like_no_other_is_not_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["zzz", "logs"])
    assert "Did you mean" not in capsys.readouterr().err


def test_without_a_command_all_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    said = capsys.readouterr().out
    for command in ("run", "summary", "stragglers", "hang", "waits", "report", "trace", "convert", "watch"):
        assert f"\n    {command} " in said


def test_a_reader_that_stops_early_is_no_error() -> None:
    """Of the list of commands, which is printed as every answer is."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, *COMMAND[:-1]]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        run = subprocess.run(
            command, env=environment, stdout=writing, stderr=subprocess.PIPE, timeout=PROCESS_S, check=False
        )
    finally:
        os.close(writing)
    assert (run.returncode, run.stderr) == (0, b"")


def test_an_encoding_that_lacks_a_letter_is_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_timing_file(tmp_path, 0, [record(group="MÜLLER")])
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert main(["bandwidth", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""
    assert b"M\\xdcLLER" in written.getvalue()


def test_asking_for_help_loads_no_pandas() -> None:
    program = "import sys; from timing_logger.cli.parser import build_parser as build; build(); "
    program += "print('pandas' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PROCESS_S, check=True
    )
    assert run.stdout == "False\n"


# -- no folder named -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [*(slow(one, "the folder is found before any question is asked")
       for one in ("summary", "stragglers", "watch --once")),
     "hang", "recover"],
)  # fmt: skip
def test_a_command_without_a_folder_takes_the_newest_run_and_says_which(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for age_s, folder in ((30, "logs/run"), (10, "logs/run/tuesday"), (20, "logs/timing"), (0, "elsewhere")):
        path = write_timing_file(Path(folder), 0, [record(), record(start_s=2.0)])
        write_sidecar(path)
        os.utime(path, (1e9 - age_s, 1e9 - age_s))
    assert main(command.split()) == 0
    assert capsys.readouterr().err == (
        "timing-logger: no LOGDIR was named; this is about logs/run/tuesday, the default folder that was "
        "written to last\n"
    )


@pytest.mark.parametrize("command", ["summary", "convert --to csv -o out.csv", "recover", "watch"])
def test_a_command_without_a_folder_says_where_it_looked_in_vain(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == 2
    said = capsys.readouterr().err
    assert "no timing files in logs/timing or logs/run" in said
    assert "Name the folder of a run." in said
