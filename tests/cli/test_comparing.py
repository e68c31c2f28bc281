"""The command compare: verdicts, exit codes, JSON, histories, and what it refuses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compared_runs import write_runs
from limits import PROCESS_S
from places import ROOT
from timing_files import record, write_timing_file

from timing_logger.analysis.comparison import between_runs
from timing_logger.cli import main
from timing_logger.cli.option_values import CHANGES
from timing_logger.engine.run_summaries import add_to_history, read_summary, summaries_of, summary_text
from timing_logger.report import size
from timing_logger.results.run_summary import RunSummary


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for side, longer_ms in (("before", {}), ("slower", {"FORWARD": 4.0})):
        write_runs(folder / side, 2, noise=0.004, seed=2, longer_ms=longer_ms, n_steps=30)
    return {side: folder / side for side in ("before", "slower")}


@pytest.fixture(scope="module")
def runs(logs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return four runs of each side, as files with their summaries, which are read much faster than folders.

    They are the first run of a log, with some noise on all its times; there are two sides of the first log.
    """
    folder = tmp_path_factory.mktemp("summaries")
    first = {side: summaries_of([log / "run0"])[0].summary for side, log in logs.items()}
    sides = {"before": first["before"], "same": first["before"], "slower": first["slower"]}
    return {side: with_noise(run, folder / side, seed) for seed, (side, run) in enumerate(sides.items())}


def with_noise(run: RunSummary, folder: Path, seed: int) -> list[str]:
    folder.mkdir()
    kept = [folder / f"run{at}.run.json" for at in range(4)]
    for at, path in enumerate(kept):
        factor = float(np.exp(np.random.default_rng([seed, at]).normal(0.0, 0.004)))
        path.write_text(summary_text(times(run, factor)))
    return [*map(str, kept)]


def times(run: RunSummary, factor: float) -> RunSummary:
    assert run.course is not None
    quantities = [
        one._replace(
            mean_ms=factor * one.mean_ms,
            median_ms=None if one.median_ms is None else factor * one.median_ms,
        )
        for one in run.quantities
    ]
    return replace(
        run,
        step_mean_ms=factor * run.step_mean_ms,
        step_median_ms=factor * run.step_median_ms,
        quantities=quantities,
        course=run.course._replace(median_ms=[factor * ms for ms in run.course.median_ms]),
    )


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str]) -> Any:
    def compared(*arguments: object, exit_code: int = 0, err: str = "") -> str:
        assert main(["compare", *map(str, arguments)]) == exit_code
        captured = capsys.readouterr()
        assert err in captured.err if err else captured.err == ""
        return re.sub(r"\s+", " ", captured.out)

    return compared


def test_a_slower_program_fails_where_that_is_asked_for(compare: Any, runs: dict[str, list[str]]) -> None:
    arguments = [*runs["slower"], "--against", *runs["before"]]
    text = compare(*arguments)
    assert "Verdict: REGRESSED. A step takes 40." in text
    assert re.search(r" FORWARD takes 1[34]\.\d+ ms in each step against (9|10)\.\d+ ms\.", text)
    assert compare(*arguments, "--fail-on", "regressed", exit_code=1) == text
    compare(*arguments, "--fail-on", "regressed", "--max-regression", "20%")
    compare(*arguments, "--fail-on", "improved,undecided")


def test_the_same_program_does_not_fail(compare: Any, runs: dict[str, list[str]]) -> None:
    text = compare(*runs["same"], "--against", *runs["before"], "--fail-on", "regressed")
    assert "Verdict: UNDECIDED." in text
    assert "is excluded" in text


def test_a_faster_program_is_called_improved(compare: Any, runs: dict[str, list[str]]) -> None:
    assert "Verdict: IMPROVED." in compare(*runs["before"], "--against", *runs["slower"])


@pytest.mark.slow("test_run_summaries.py has the runs in folders, of which the summaries here are made")
def test_folders_of_folders_count_each(compare: Any, logs: dict[str, Path]) -> None:
    of_folders = compare(logs["slower"], "--against", logs["before"])
    assert of_folders.startswith("2 runs of 2 ranks, 27 steps after the first 3 against 2 runs")
    one_by_one = {side: sorted(log.iterdir()) for side, log in logs.items()}
    assert of_folders == compare(*one_by_one["slower"], "--against", *one_by_one["before"])


def test_of_single_runs_it_is_told_what_differs_and_nothing_is_decided(
    compare: Any, runs: dict[str, list[str]]
) -> None:
    text = compare(runs["slower"][0], "--against", runs["before"][0], "--fail-on", "regressed")
    assert "Verdict: UNDECIDED. It takes 3 runs on each side" in text
    assert re.search(r"FORWARD train 1[34]\.\d+ (9|10)\.\d+ \+[34]\.\d+", text)


def test_json_has_the_verdict_and_each_sentence(
    capsys: pytest.CaptureFixture[str], runs: dict[str, list[str]]
) -> None:
    arguments = ["compare", *runs["slower"], "--against", *runs["before"], "--json", "--fail-on", "regressed"]
    assert main(arguments) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["basis"], found["order"]) == ("regressed", "step", "in turn")
    assert 0 < found["step"]["low"] < found["step"]["change"] < found["step"]["high"]
    assert [cause["kind"] for cause in found["causes"]] == ["work"]
    assert found["text"][0].startswith("Verdict: REGRESSED.")
    assert len(found["against"]["runs"]) == 4


def test_json_of_single_runs_is_strict(
    capsys: pytest.CaptureFixture[str], runs: dict[str, list[str]]
) -> None:
    assert main(["compare", runs["slower"][0], "--against", runs["before"][0], "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert (found["step"]["low"], found["step"]["p"], found["step"]["runs_needed"]) == (None, None, None)


def test_pairs_are_compared_with_each_other(compare: Any, runs: dict[str, list[str]]) -> None:
    assert ", in pairs." in compare(*runs["slower"], "--against", *runs["before"], "--paired")
    compare(*runs["slower"][:3], "--against", *runs["before"], "--paired", exit_code=2, err="are no pairs")


# -- the page ---------------------------------------------------------------------------------------------


def test_the_page_is_written_beside_the_answer(
    compare: Any, runs: dict[str, list[str]], tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    arguments = [*runs["slower"], "--against", *runs["before"], "--fail-on", "regressed"]
    text = compare(*arguments, "--report", path, exit_code=1)
    said = f"{path}: {size(path.stat().st_size)}. It opens in a browser, also offline. "
    assert text == f"{compare(*arguments, exit_code=1)}{said}"
    assert "Verdict: regressed" in path.read_text(encoding="utf-8")


def test_json_stays_json_where_a_page_is_written(
    capsys: pytest.CaptureFixture[str], runs: dict[str, list[str]], tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    assert (
        main(["compare", *runs["same"], "--against", *runs["before"], "--json", "--report", str(path)]) == 0
    )
    assert json.loads(capsys.readouterr().out)["courses"]["counted_by"] == "iterations"
    assert path.exists()


def test_a_page_that_cannot_be_written_leaves_the_history_as_it_was(
    compare: Any, runs: dict[str, list[str]], history: Path, tmp_path: Path
) -> None:
    before = sorted(history.iterdir())
    asked = (runs["before"][0], "--history", history, "--report", tmp_path)
    compare(*asked, exit_code=2, err="is a folder")
    assert sorted(history.iterdir()) == before


def test_the_page_of_a_history_says_that_it_is_one(
    compare: Any, runs: dict[str, list[str]], history: Path, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    assert str(path) in compare(runs["same"][0], "--history", history, "--report", path)
    assert "of a history, in 8 batches" in path.read_text(encoding="utf-8")


def test_without_anything_to_compare_with_there_is_no_page_and_that_is_said(
    compare: Any, runs: dict[str, list[str]], tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    compare(runs["same"][0], "--history", tmp_path / "new", "--report", path, err="is not written")
    assert not path.exists()


# -- a history ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kept_history(runs: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept") / "history"
    for run in [*runs["before"], *runs["same"]]:
        add_to_history(folder, [read_summary(Path(run))], keep=20)
    return folder


@pytest.fixture
def history(kept_history: Path, tmp_path: Path) -> Path:
    """A history of eight runs that a test may change."""
    return Path(shutil.copytree(kept_history, tmp_path / "history"))


def test_a_history_begins_with_the_first_runs(
    compare: Any, runs: dict[str, list[str]], tmp_path: Path
) -> None:
    text = compare(*runs["before"], "--history", tmp_path / "new", "--fail-on", "regressed,undecided")
    assert text.endswith("keeps no runs yet: nothing is compared. 4 runs added. ")
    assert "it takes 6 to know" in compare(runs["same"][0], "--history", tmp_path / "new")


def test_a_slower_run_fails_and_is_not_added(compare: Any, runs: dict[str, list[str]], history: Path) -> None:
    for _ in range(2):
        text = compare(runs["slower"][0], "--history", history, "--fail-on", "regressed", exit_code=1)
        assert "Not added to" in text
    assert len(list(history.iterdir())) == 8


def test_a_slower_run_that_is_accepted_begins_the_history_anew(
    compare: Any, runs: dict[str, list[str]], history: Path
) -> None:
    compare(runs["slower"][0], "--history", history, "--accept")
    assert len(list(history.iterdir())) == 1


def test_an_equal_run_is_added_and_the_oldest_goes(
    compare: Any, runs: dict[str, list[str]], history: Path
) -> None:
    before = sorted(history.iterdir())
    assert "which keeps 8 now" in compare(runs["before"][0], "--history", history, "--keep", "8")
    assert sorted(history.iterdir())[:7] == before[1:]


def test_a_pull_request_compares_and_adds_nothing(
    compare: Any, runs: dict[str, list[str]], history: Path
) -> None:
    before = sorted(history.iterdir())
    assert "Not added to" in compare(runs["same"][0], "--history", history, "--no-add")
    assert sorted(history.iterdir()) == before


def test_what_is_damaged_in_a_history_is_told_and_passed_over(
    compare: Any, runs: dict[str, list[str]], history: Path
) -> None:
    (history / "0.run.json").write_text("{}")
    compare(runs["same"][0], "--history", history, err="0.run.json' holds no summary of a run")


def test_a_run_that_is_there_already_is_neither_compared_with_itself_nor_added_again(
    compare: Any, runs: dict[str, list[str]], tmp_path: Path
) -> None:
    one = json.loads(Path(runs["same"][0]).read_text())
    (tmp_path / "one.run.json").write_text(json.dumps({**one, "run_id": "a", "began_unix_ns": 1}))
    for _ in range(2):
        text = compare(tmp_path / "one.run.json", "--history", tmp_path / "history")
        assert "nothing is compared" in text
    assert len(list((tmp_path / "history").iterdir())) == 1


# -- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "say with what to compare"),
        (("--against", "x", "--history", "y"), "not both"),
        (("--against", "x", "--accept"), "are about a history"),
        (("--history", "y", "--accept", "--no-add"), "leave one away"),
        (("--history", "y", "--paired"), "--paired is for runs recorded in turn"),
    ],
)
def test_options_that_contradict_are_refused(compare: Any, options: tuple[str, ...], said: str) -> None:
    compare("x", *options, exit_code=2, err=said)


@pytest.mark.parametrize("part", ["5", "1000%", "-1%", "x", "", "1e-3", "nan"])
def test_a_bound_that_is_no_part_is_refused(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    if part == "5":  # 500%
        part = "50"
    with pytest.raises(SystemExit):
        main(["compare", "x", "--against", "y", f"--max-regression={part}"])
    assert "say a percentage" in capsys.readouterr().err


def test_a_folder_without_runs_is_refused(compare: Any, tmp_path: Path) -> None:
    compare(tmp_path, "--against", tmp_path, exit_code=2, err="Name the folder of a run")


def test_a_run_without_steps_of_known_length_is_refused(compare: Any, tmp_path: Path) -> None:
    write_timing_file(tmp_path, 0, [record()])
    compare(tmp_path, "--against", tmp_path, exit_code=2, err="no step has a known length")


def test_without_scipy_the_way_out_is_told(
    compare: Any, runs: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    for side in (runs["slower"], runs["slower"][:1]):
        compare(*side, "--against", *runs["before"], exit_code=2, err="pip install 'timing_logger[compare]'")


def test_an_old_scipy_is_told_too(
    compare: Any, runs: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from scipy import stats

    monkeypatch.delattr(stats, "false_discovery_control")
    arguments = [*runs["slower"], "--against", *runs["before"]]
    compare(*arguments, exit_code=2, err="pip install 'timing_logger[compare]'")
    assert between_runs  # the module that says so


def test_the_command_knows_the_verdicts_of_comparisons() -> None:
    from timing_logger.results.comparison import VERDICTS

    assert CHANGES == VERDICTS


@pytest.mark.slow("imports all analyses for it; test_cli.py has that not even pandas is loaded for help")
def test_scipy_is_not_loaded_before_it_is_needed() -> None:
    program = (
        "import sys; from timing_logger.cli.parser import build_parser; import timing_logger.analysis; "
        "build_parser(); print('scipy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PROCESS_S,
        check=True,
    )
    assert done.stdout == "False\n"
