"""``watch`` tells while a run is written who is found slow, and ends with the run."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import warm
from limits import LIMIT_S
from simulated_runs import CLOCK_OFFSETS_S, Floats, data_parallel, factors
from slow import slow
from timing_files import write_table

from timing_logger import TimingLogger
from timing_logger.cli import commands, main
from timing_logger.process.this_process import host_name


def of_one_host(factor: Floats) -> pd.DataFrame:
    """Return a run whose ranks have one clock, so that their last seconds are the same."""
    run = data_parallel(factor, slow_operations=["FORWARD"])
    for column in ("start_counter", "end_counter"):
        run[column] -= CLOCK_OFFSETS_S * run["rank"]
    return run


def test_a_rank_that_turns_slow_and_recovers_has_two_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    factor = factors(60, 3, 0.02)
    factor[20:40, 2] *= 2
    run, folder, said = of_one_host(factor), tmp_path / "run", []

    def until_the_next_look(_: float) -> None:
        said.extend(capsys.readouterr().out.splitlines())
        if not folder.exists():
            write_table(folder, run[run["iteration"] < 40], closed=False)
        elif said:
            write_table(folder, run)

    monkeypatch.setattr(commands, "time", SimpleNamespace(time=time.time, sleep=until_the_next_look))
    assert main(["watch", str(folder), "--verdict", "--json"]) == 0
    begins, ends = map(json.loads, [*said, *capsys.readouterr().out.splitlines()])
    assert (begins["event"], begins["change"], begins["ranks"]) == ("verdict", "begins", [2])
    assert (begins["operation"], begins["since_iteration"]) == ("FORWARD", 20)
    assert (ends["change"], ends["ranks"], ends["since_iteration"]) == ("ends", [2], 20)
    assert (begins["world_size"], begins["named"]) == (3, [{"rank": 2, "node": host_name()}])
    assert begins["at"] == begins["since"] == ends["since"] < ends["at"]


@pytest.mark.slow("test_launch_monitored.py has such lines in words; this is of the command")
def test_in_words_a_line_says_when_and_who(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    factor = factors(30, 3)
    factor[:, 1] *= 2
    run = write_table(tmp_path / "run", of_one_host(factor))
    assert main(["watch", str(run), "--verdict", "--interval", "0.05"]) == 0
    said = capsys.readouterr().out.splitlines()[0]
    assert " rank 1 costs this run " in said
    assert said.count(":") >= 2


@pytest.mark.parametrize("options", [["--verdict", "--once"], ["--verdict", "--all"], ["--json"]])
def test_options_that_do_not_go_together_are_an_error(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", str(tmp_path), *options]) == 2
    assert "--verdict" in capsys.readouterr().err


# -- its end ---------------------------------------------------------------------------------------------


def record(folder: Path, ranks: list[int], world_size: int) -> None:
    for rank in ranks:
        with TimingLogger(rank, folder, world_size=world_size) as logger:
            for iteration in range(5):
                logger.record_timing("FORWARD", 1.0, iteration=iteration)


def watch(folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [warm.python(), "-m", "timing_logger", "watch", str(folder), "--interval", "0.1", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    "options", [[], slow(["--verdict"], "one of an import, in test_import_logs.py, ends by itself, too")]
)
def test_it_ends_when_all_ranks_have_closed_their_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    record(tmp_path, [0, 1], world_size=2)
    assert main(["watch", str(tmp_path), "--interval", "0.1", *options]) == 0
    assert bool(options) or "The run ended" in capsys.readouterr().out


@pytest.mark.slow("live/test_watcher.py has that such a run has not ended")
def test_it_goes_on_while_a_rank_has_yet_to_begin(tmp_path: Path) -> None:
    record(tmp_path, [0], world_size=2)
    watching = watch(tmp_path)
    try:
        assert watching.stdout is not None
        while "1 rank" not in watching.stdout.readline():
            assert watching.poll() is None
        record(tmp_path, [1], world_size=2)
        printed, _ = watching.communicate(timeout=LIMIT_S)
    finally:
        watching.kill()
    assert "2 ranks" in printed


@pytest.mark.slow("live/test_watcher.py has one that goes on until an interrupt")
def test_it_goes_on_while_files_are_not_closed(tmp_path: Path) -> None:
    watching = watch(write_table(tmp_path / "run", data_parallel(factors(10, 2)), closed=False))
    try:
        assert watching.stdout is not None
        for _ in range(2):
            while "2 ranks" not in watching.stdout.readline():
                assert watching.poll() is None
    finally:
        watching.kill()
        watching.wait()
