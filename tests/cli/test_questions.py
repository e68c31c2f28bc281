"""The command line answers single questions: bandwidth, waits, overlap, compression, stragglers, watch."""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import warm
from conditions import wait_for
from limits import PROCESS_S
from places import ROOT
from processes import INTERRUPTIBLE_CLI
from simulated_runs import CLOCK_OFFSETS_S, data_parallel, factors
from slow import slow
from timing_files import record, write_table, write_timing_file

from timing_logger import read_timings
from timing_logger.analysis.rows.analysis import ByProcess
from timing_logger.cli import main
from timing_logger.cli.queries import run_query as ask_analyses
from timing_logger.cli.questions import QUESTIONS

STEPS = 40
NAMES = [question.name for question in QUESTIONS]
OF_ITERATIONS = [question.name for question in QUESTIONS if question.of_iterations]


def on_one_clock(table: pd.DataFrame) -> pd.DataFrame:
    """The ranks are of one host, as their sidecars say."""
    offset_s = CLOCK_OFFSETS_S * (1 + table["rank"])
    return table.assign(
        start_counter=table["start_counter"] - offset_s, end_counter=table["end_counter"] - offset_s
    )


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = on_one_clock(data_parallel(factors(STEPS, 4, noise=0.02)))
    return write_table(tmp_path_factory.mktemp("healthy"), table)


@pytest.fixture(scope="module")
def with_slow_rank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rank 2 takes twice as long in BACKWARD, in all steps."""
    slow = factors(STEPS, 4, noise=0.02)
    slow[:, 2] *= 2
    table = on_one_clock(data_parallel(slow, slow_operations=["BACKWARD"]))
    table.loc[table["operation"] == "ALLREDUCE", "message_size_bytes"] = 1_000_000
    return write_table(tmp_path_factory.mktemp("slow"), table)


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Any:
    def asked(*arguments: object, exit_code: int = 0) -> str:
        assert main(list(map(str, arguments))) == exit_code
        captured = capsys.readouterr()
        assert captured.err == ""
        return captured.out

    return asked


@pytest.fixture(scope="module")
def answers() -> dict[tuple[str, ...], str]:
    return {}


@pytest.fixture
def ask_once(ask: Any, answers: dict[tuple[str, ...], str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """``ask`` for what several tests look at: the same question is answered once for all of them.

    The terminal is a narrow one.
    """
    monkeypatch.setenv("COLUMNS", "80")

    def asked(*arguments: object) -> str:
        key = tuple(map(str, arguments))
        if key not in answers:
            answers[key] = ask(*arguments)
        return answers[key]

    return asked


def on_one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


# -- stragglers ----------------------------------------------------------------------------------


def test_the_front_page_has_every_question() -> None:
    page = (ROOT / "README.md").read_text()
    assert [name for name in NAMES if f"\n| `{name}` |" not in page] == [], "the table in README.md"


def test_the_page_of_commands_has_every_question() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    assert [name for name in NAMES if f"timing-logger {name} " not in page] == [], "docs/commands.md"


def test_the_slow_rank_is_named_with_its_cost_window_and_operation(
    ask_once: Any, with_slow_rank: Path
) -> None:
    text = on_one_line(ask_once("stragglers", with_slow_rank))
    assert text.startswith("Verdict: rank 2 costs this run ")
    assert "in each of 40 steps, throughout (iterations 0 to 39), in BACKWARD. Certain." in text


@pytest.mark.slow("the question why is asked in test_questions_of_causes.py, where nothing was counted")
def test_the_conditions_that_decided_are_shown_where_they_are_asked_for(
    ask_once: Any, with_slow_rank: Path
) -> None:
    assert "z among the peers" not in ask_once("stragglers", with_slow_rank)
    assert "z among the peers" in ask_once("stragglers", with_slow_rank, "--why")


def test_of_healthy_ranks_nobody_is_named(ask_once: Any, healthy: Path) -> None:
    assert ask_once("stragglers", healthy).startswith("Verdict: no rank is slow.")


def test_the_verdict_is_one_json_object(ask_once: Any, with_slow_rank: Path) -> None:
    found = json.loads(ask_once("stragglers", with_slow_rank, "--json"))
    assert (found["verdict"], found["ranks"], found["operation"]) == ("rank", [2], "BACKWARD")
    assert (found["first_iteration"], found["last_iteration"], found["window"]) == (0, 39, "persistent")
    assert {"labels", "score", "cost_ms", "gates", "evidence", "windows"} <= set(found)
    assert found["windows"][0]["rank"] == 2
    slow_operation = next(fact for fact in found["evidence"] if fact["fact"] == "slow-operation")
    assert (slow_operation["operation"], slow_operation["rank"]) == ("BACKWARD", 2)
    assert slow_operation["text"].startswith("BACKWARD holds ")


@pytest.mark.slow(
    "tests/project/test_ci_page.py has the exit codes with and without the verdict in --fail-on"
)
@pytest.mark.parametrize(
    ("fail_on", "exit_code"), [("role,rank", 1), ("group-wide,diffuse", 0), ("rank", 1), ("role", 0)]
)
def test_bad_news_fail_only_where_asked(ask: Any, with_slow_rank: Path, fail_on: str, exit_code: int) -> None:
    assert "rank 2" in ask("stragglers", with_slow_rank, "--fail-on", fail_on, exit_code=exit_code)


# -- the other questions ---------------------------------------------------------------------------


def test_bandwidth_is_that_of_nccl_tests(ask_once: Any, with_slow_rank: Path) -> None:
    (found,) = json.loads(ask_once("bandwidth", with_slow_rank, "--json"))["bandwidth"]
    assert found["transfer_ms"] == pytest.approx(1.5)
    assert found["transfer_algbw_gb_per_s"] == pytest.approx(1e6 / 1.5e-3 / 1e9)
    assert found["transfer_busbw_gb_per_s"] == pytest.approx(1e6 / 1.5e-3 / 1e9 * 2 * 3 / 4)
    assert "1.000" in ask_once("bandwidth", with_slow_rank)


def test_who_waits_for_whom(ask_once: Any, with_slow_rank: Path) -> None:
    rows = json.loads(ask_once("waits", with_slow_rank, "--json"))["waits"]
    assert [row["times_last"] for row in rows] == [0, 0, STEPS, 0]
    for name in ("wait_ms", "clock_free_wait_ms"):
        waited = [row[name] for row in rows]
        assert waited[2] == pytest.approx(0, abs=1e-3)
        assert min(waited[:2] + waited[3:]) == pytest.approx(20 * STEPS, rel=0.1)
    assert "Group world" in ask_once("waits", with_slow_rank)


@pytest.fixture
def with_missing_row(tmp_path: Path) -> Path:
    table = data_parallel(factors(3, 4))
    missing = (table["rank"] == 1) & (table["operation"] == "ALLREDUCE") & (table["iteration"] == 2)
    return write_table(tmp_path, table[~missing])


@pytest.mark.slow("test_questions_of_known_folders.py has the sentence about collectives of a hang")
def test_collectives_that_do_not_fit_together_are_told(ask: Any, with_missing_row: Path) -> None:
    assert "Of 3 collectives 1 are incomplete" in on_one_line(ask("waits", with_missing_row))


@pytest.mark.slow("tests/analysis has what is found of such collectives, and the text says it above")
def test_json_has_the_collectives_that_do_not_fit_together(ask: Any, with_missing_row: Path) -> None:
    (flawed,) = json.loads(ask("waits", with_missing_row, "--json"))["flawed_collectives"]
    assert (flawed["seq"], flawed["state"], flawed["why"]) == (2, "incomplete", "rank 1 missing")


def test_overlap_is_per_rank_or_per_iteration(ask: Any, healthy: Path) -> None:
    per_rank = json.loads(ask("overlap", healthy, "--json"))
    assert [row["iterations"] for row in per_rank["overlap"]] == [STEPS] * 4
    assert len(per_rank["efficiencies"]) == 1
    per_iteration = json.loads(ask("overlap", healthy, "--by", "iteration", "--json"))["overlap"]
    assert len(per_iteration) == 4 * STEPS
    assert "Parallel efficiency" in ask("overlap", healthy)


@pytest.mark.slow("test_questions_of_known_folders.py has the sentence about a run that compresses nothing")
def test_where_nothing_is_compressed_that_is_said(ask: Any, healthy: Path) -> None:
    assert "Nothing is compressed" in ask("compression", healthy)
    assert json.loads(ask("compression", healthy, "--json")) == {"compression": [], "not_told": []}


def test_totals_are_by_whatever_is_asked_for(ask: Any, healthy: Path) -> None:
    found = json.loads(ask("summary", healthy, "--by", "iteration,phase", "--json"))["operations"]
    assert len(found) == STEPS
    assert {row["count"] for row in found} == {4 * 5}
    assert ask("summary", healthy, "--by", "layer,rank").splitlines()[0].split()[:2] == ["rank", "count"]


# -- options that all have ---------------------------------------------------------------------------


BEFORE = "rows are selected before a question is asked, and other questions are asked of some"
SELECTED_ELSEWHERE = {
    "summary": "a test below selects the iterations of a summary",
    **dict.fromkeys(("what-if", "waits", "stragglers", "overlap", "compression"), BEFORE),
}


@pytest.mark.parametrize(
    "question",
    [slow(name, SELECTED_ELSEWHERE[name]) if name in SELECTED_ELSEWHERE else name for name in OF_ITERATIONS],
)
def test_ranks_and_iterations_are_selected(ask_once: Any, with_slow_rank: Path, question: str) -> None:
    """Without the slow rank, and in half of the steps."""
    chosen = ask_once(question, with_slow_rank, "--ranks", "0-1,3", "--iterations", "20:", "--json")
    assert '"rank": 2' not in chosen
    assert json.loads(chosen) != json.loads(ask_once(question, with_slow_rank, "--json")) or question in (
        "compression",
    )


def test_iterations_end_before_the_second_number(ask: Any, healthy: Path) -> None:
    found = json.loads(ask("summary", healthy, "--by", "iteration", "--iterations", "3:6", "--json"))
    assert [row["iteration"] for row in found["operations"]] == [3, 4, 5]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--ranks", "a"), ("--ranks", "1-"), ("--ranks", "3-1"), ("--iterations", "5"),
        ("--iterations", "a:b"), ("--by", "colour"), ("--by", "rank,rank"),
    ],
)  # fmt: skip
def test_an_option_that_makes_no_sense_is_an_error(
    capsys: pytest.CaptureFixture[str], healthy: Path, arguments: tuple[str, str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["summary", str(healthy), *arguments])
    assert exit_.value.code == 2
    assert arguments[1] in capsys.readouterr().err


EVERY_CHOICE = [[name] for name in OF_ITERATIONS] + [
    ["summary", "--by", "rank"],
    ["summary", "--engine", "pyarrow"],
    ["stragglers", "--engine", "pyarrow", "--json"],
    ["waits", "--engine", "pyarrow"],
    ["report", "-o", "out"],
    ["trace", "-o", "out"],
]
AS_OF_BANDWIDTH = "refused in the same place as of bandwidth"
SOME_CHOICES = [
    choice if choice in (["bandwidth"], ["trace", "-o", "out"]) else slow(choice, AS_OF_BANDWIDTH)
    for choice in EVERY_CHOICE
]


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What stderr says of a command that has nothing to report on."""
    assert main(list(map(str, arguments))) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


@pytest.mark.parametrize("command", SOME_CHOICES, ids=" ".join)
@pytest.mark.parametrize(
    ("ranks", "lacking"),
    [
        ("2-9", "4-9"),
        pytest.param("7", "7", marks=pytest.mark.slow("refused in the same place for each command")),
    ],
)
def test_ranks_that_there_are_not_are_an_error_that_names_those_there_are(
    capsys: pytest.CaptureFixture[str], healthy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    command: list[str], ranks: str, lacking: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    said = refused(capsys, command[0], healthy, *command[1:], "--ranks", ranks)
    assert said == f"timing-logger: ranks: no timing file is of {lacking}; there are 0-3.\n"
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("command", SOME_CHOICES, ids=" ".join)
@pytest.mark.parametrize("iterations", ["40:", slow("9:3", "refused in the same place for each command")])
def test_iterations_that_there_are_not_are_an_error_that_names_those_there_are(
    capsys: pytest.CaptureFixture[str], healthy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    command: list[str], iterations: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    said = refused(capsys, command[0], healthy, *command[1:], "--iterations", iterations)
    assert said == (f"timing-logger: iterations: no row is of {iterations}; there are 0 to 39.\n")
    assert not any(tmp_path.iterdir())


def test_iterations_of_one_rank_are_those_of_all(ask: Any, tmp_path: Path) -> None:
    """The first file may have been sampled otherwise."""
    for rank in range(2):
        write_timing_file(tmp_path, rank, [record(iteration=rank)])
    assert json.loads(ask("overlap", tmp_path, "--iterations", "1:", "--json"))["overlap"][0]["rank"] == 1


def test_rows_of_no_iteration_are_said_to_be_of_none(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_timing_file(tmp_path, 0, [record(iteration=None)])
    assert "no row is of 0:5; none states an iteration." in refused(
        capsys, "summary", tmp_path, "--iterations", "0:5"
    )


def test_ranks_with_gaps_are_named_with_their_gaps(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for rank in (0, 1, 2, 5, 8):
        write_timing_file(tmp_path, rank, [record()])
    assert "no timing file is of 3; there are 0-2,5,8." in refused(
        capsys, "waits", tmp_path, "--ranks", "0,3"
    )


AS_TEXT = "the same analysis is asked for its text, and the hardest row for JSON"
OF_FIVE_ROWS = "a folder without rows, and with one row without a duration, are the harder cases"
LITTLE = {
    "no rows": [],
    "one row": [record(elapsed_ms=None)],
    "one rank": [record(iteration=i, start_s=i) for i in range(5)],
}


AS_WAITS = "waits, bandwidth and stragglers ask for the same row"
OF_ONE_ROW = {
    **dict.fromkeys(("overlap", "compression", "hang", "what-if"), AS_WAITS),
    "summary": "a file without rows is summarised in test_cli.py",
}
WITHOUT_ROWS = "one row without a duration is the harder case, and test_cli.py summarises no rows"
ONE_ROW, NO_ROWS = "one row", "no rows"


def asked_of_little(question: str, rows: str, *flags: str) -> Any:
    """The parameter for a question about few rows, which is slow where another is as hard."""
    if rows == "one rank":
        reason = AS_TEXT if flags else OF_FIVE_ROWS
    elif flags:
        reason = "" if (rows, question) == (ONE_ROW, "bandwidth") else AS_TEXT
    elif rows == NO_ROWS:
        reason = WITHOUT_ROWS
    else:
        reason = OF_ONE_ROW.get(question, "")
    marks = [pytest.mark.slow(reason)] if reason else []
    return pytest.param(question, rows, [*flags], marks=marks, id=" ".join((question, rows, *flags)))


@pytest.mark.parametrize(
    ("question", "rows", "flag"),
    [
        asked_of_little(question, rows, *flags)
        for question in NAMES
        for rows in LITTLE
        for flags in ([], ["--json"])
    ],
)
def test_every_question_has_an_answer_to_little(
    ask: Any, tmp_path: Path, question: str, rows: str, flag: list[str]
) -> None:
    write_timing_file(tmp_path, 0, LITTLE[rows])
    assert ask(question, tmp_path, *flag) != ""


AS_OF_OTHERS = "its tables are those of other answers, and its sentences are wrapped as a verdict is"
OF_THIS_WIDTH = {
    "summary": "test_cli.py has the width of a summary",
    **dict.fromkeys(("what-if", "hang", "overlap", "compression"), AS_OF_OTHERS),
}


@pytest.mark.parametrize(
    "question", [slow(name, OF_THIS_WIDTH[name]) if name in OF_THIS_WIDTH else name for name in NAMES]
)
@pytest.mark.parametrize("width", [80, slow(120, "the narrow terminal is the harder case")])
def test_no_answer_is_wider_than_the_terminal(
    ask: Any, ask_once: Any, with_slow_rank: Path, question: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = ask_once(question, with_slow_rank) if width == 80 else ask(question, with_slow_rank)
    assert max(map(len, text.splitlines())) <= width
    assert text.isascii()


@pytest.fixture(scope="module")
def with_hostile_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = data_parallel(np.ones((25, 2)))
    table["group"], table["layer_name"] = "\x1b[2J[/x]", "\x1b[31m"
    return write_table(tmp_path_factory.mktemp("hostile"), table)


NAMES_ELSEWHERE = {
    "summary": "test_cli.py prints such names",
    **dict.fromkeys(
        [name for name in NAMES if name not in ("summary", "bandwidth")],
        "names are printed as those of bandwidth",
    ),
}


@pytest.mark.parametrize(
    "question", [slow(one, NAMES_ELSEWHERE[one]) if one in NAMES_ELSEWHERE else one for one in NAMES]
)
def test_names_cannot_reach_the_terminal(ask: Any, with_hostile_names: Path, question: str) -> None:
    assert "\x1b" not in ask(question, with_hostile_names)


# -- files ---------------------------------------------------------------------------------------------


def test_a_report_is_one_file_that_begins_with_the_verdict(
    ask: Any, with_slow_rank: Path, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    assert ask("report", with_slow_rank, "-o", path).startswith(f"{path}: ")
    assert "Rank 2 costs this run" in path.read_text()


@pytest.mark.slow("ranks are selected in the same place for the trace, and refused for both")
def test_a_report_is_of_the_selected_ranks(ask: Any, with_slow_rank: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    ask("report", with_slow_rank, "-o", path, "--ranks", "0,1,3")
    assert "Rank 2 costs this run" not in path.read_text()


def test_a_trace_holds_the_selected_ranks(ask: Any, healthy: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    said = ask("trace", healthy, "-o", path, "--ranks", "1,3", "--iterations", ":2")
    assert f"{path}: 20 spans and" in said
    events = json.loads(path.read_text())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert sorted(name.split(" (")[0] for name in names) == ["rank 1", "rank 3"]


@pytest.mark.parametrize("to", ["parquet", "csv", slow("jsonl", "tests/reading has what each format holds")])
def test_a_run_is_converted_once(
    ask: Any, healthy: Path, tmp_path: Path, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if to == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, see the extra 'parquet'")
    path = tmp_path / f"run.{to}"
    assert ask("convert", healthy, "--to", to, "-o", path).startswith(f"{path}: 800 rows in 1 file, ")
    assert main(["convert", str(healthy), "--to", to, "-o", str(path)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_without_pyarrow_the_error_names_the_extra_without_a_traceback(
    healthy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["convert", str(healthy), "--to", "parquet", "-o", str(tmp_path / "run")]) == 2
    assert "pip install 'timing_logger[parquet]'" in capsys.readouterr().err


@pytest.mark.slow("tests/reading has that Parquet has the rows of the timing files; one is written above")
def test_parquet_is_asked_as_the_timing_files_are(
    ask: Any, ask_once: Any, with_slow_rank: Path, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, see the extra 'parquet'")
    ask("convert", with_slow_rank, "--to", "parquet", "-o", tmp_path / "run")
    assert ask("bandwidth", tmp_path / "run") == ask_once("bandwidth", with_slow_rank)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_shells_are_told_what_completes(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["--print-completion", shell])
    assert exit_.value.code == 0
    assert "--fail-on" in capsys.readouterr().out


# -- watch -------------------------------------------------------------------------------------------


def test_a_look_at_a_folder_that_is_not_there_is_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "later" in refused(capsys, "watch", tmp_path / "later", "--once")


def test_a_look_at_a_run_shows_its_ranks_and_verdict(
    ask: Any, with_slow_rank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")  # the folder's name breaks no line
    text = ask("watch", with_slow_rank, "--once")
    lines = [line.split() for line in text.splitlines()]
    assert [line[:2] for line in lines if line and line[0].isdigit()] == [[str(i), "39"] for i in range(4)]
    assert "Verdict: rank 2 costs this run" in text


@pytest.mark.slow("test_watcher.py has one in a terminal, which goes on and ends with an interrupt")
def test_watching_goes_on_and_ends_cleanly_with_an_interrupt(tmp_path: Path) -> None:
    run = write_table(tmp_path / "run", data_parallel(factors(10, 2)), closed=False)
    command = [warm.python(), "-c", INTERRUPTIBLE_CLI, "watch", str(run), "--interval", "0.1"]
    printed = tmp_path / "printed"
    with printed.open("w") as out:
        watch = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: printed.read_text().count("Verdict: ") >= 2, printed.read_text, by=watch)
        watch.send_signal(signal.SIGINT)
        _, errors = watch.communicate(timeout=PROCESS_S)
    finally:
        watch.kill()
    assert (watch.returncode, errors) == (0, "")


def test_there_is_nothing_to_watch_in_an_empty_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", str(tmp_path), "--once"]) == 2
    assert "no timing file" in capsys.readouterr().err


def test_an_analysis_that_needs_no_iteration_can_be_asked_of_some_iterations(healthy: Path) -> None:
    arguments = argparse.Namespace(
        logdir=[str(healthy)], run="latest", world="", engine="auto", ranks=None, iterations=slice(3, 6),
        scheduler=None,
    )  # fmt: skip
    n_rows = ByProcess(columns=("operation", "elapsed_ms"), map=len, reduce=sum)
    asked = ask_analyses(arguments, n_rows)
    assert asked.result.answer == (read_timings(healthy)["iteration"].between(3, 5)).sum()


# -- what if ---------------------------------------------------------------------------------------


def test_what_if_says_how_long_the_run_would_have_taken_and_what_gains_most(
    ask_once: Any, with_slow_rank: Path
) -> None:
    said = on_one_line(ask_once("what-if", with_slow_rank, "--fix", "rank=2"))
    assert re.match(r"With rank 2 like its peers, this run of 2\.\d\d s would have taken 1\.\d\d s: ", said)
    assert "No rank would cost it 1% then." in said
    best = json.loads(ask_once("what-if", with_slow_rank, "--json"))
    assert best["answer"] is None
    assert {row["fix"] for row in best["repairs"]} == {"rank=2", "operation=BACKWARD"}


@pytest.mark.slow("tests/analysis has several repairs; what one makes of the run is said above")
def test_what_if_has_several_repairs_and_says_each_in_json(ask: Any, with_slow_rank: Path) -> None:
    fixes = ["--fix", "rank=2", "--fix", "without=DATA"]
    answer = json.loads(ask("what-if", with_slow_rank, *fixes, "--json"))["answer"]
    assert answer["fixes"] == ["rank=2", "without=DATA"]
    assert answer["gain_ms"] > 0.9 * STEPS * (20 + 2)


@pytest.mark.slow("tests/analysis has that such a run gains nothing by any repair")
def test_what_if_names_nothing_in_a_healthy_run(ask: Any, healthy: Path) -> None:
    assert "No single repair would make this run shorter by 1%." in ask("what-if", healthy)


@pytest.mark.slow("tests/analysis has what is refused, and what may be typed is said below")
def test_what_if_refuses_what_the_run_does_not_have(
    with_slow_rank: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["what-if", str(with_slow_rank), "--fix", "rank=9"]) == 2
    assert "rank=9: there is no such rank; there are 0, 1, 2, 3" in capsys.readouterr().err


def test_what_if_says_what_may_be_typed(with_slow_rank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["what-if", str(with_slow_rank), "--fix", "rank=x"])
    assert "argument --fix: say a number, such as rank=2" in capsys.readouterr().err
