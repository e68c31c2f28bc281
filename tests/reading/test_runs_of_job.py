"""A job that is started again and again into one folder: each of its runs apart, or all of them together."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from read_folders import job, read_files
from slow import slow
from torch_runner import PROGRAMS, run_under_torchrun

from timing_logger import read_timings
from timing_logger.analysis import match_collectives
from timing_logger.cli import main
from timing_logger.errors import ConfigurationError
from timing_logger.reading.runs_of_job import of_run
from timing_logger.reading.timings import find_sources

N_ITERATIONS, BYTES = 5, 400  # of tests/torch_programs/restarted.py


# -- which files are of which run ----------------------------------------------------------------------------


def runs(folder: Path, *numbers: Any) -> list[list[tuple[int, int]]]:
    """Which files are of these runs, as (rank, incarnation)."""
    files = find_sources([folder])
    found = [of_run(files, number).sources for number in numbers]
    return [[(source.name.rank, source.name.incarnation) for source in sources] for sources in found]


@pytest.mark.parametrize(
    "sidecar", [True, slow(False, "without sidecars, incarnations are told apart in test_reading.py")]
)
class TestRunsByNumber:
    @pytest.mark.slow("where a rank joined later, each run has it too")
    def test_each_run_has_the_number_in_its_names(self, tmp_path: Path, sidecar: bool) -> None:
        for number in (1, 2, 3):
            job(tmp_path, {0: number, 1: number}, 20 * number, 20 * number + 10, sidecar=sidecar)
        assert runs(tmp_path, 1, 2, 3) == [[(0, n), (1, n)] for n in (1, 2, 3)]
        assert runs(tmp_path, 3) == runs(tmp_path, "latest")

    def test_the_others_are_left_out_and_said_to_be_of_which_run(self, tmp_path: Path, sidecar: bool) -> None:
        for number in (1, 2, 3):
            job(tmp_path, {0: number}, 20 * number, 20 * number + 10, sidecar=sidecar)
        assert read_files(tmp_path, 2)[1] == {
            "timing-rank0.csv": "of run 1", "timing-rank0.run3.csv": "of run 3",
        }  # fmt: skip

    def test_a_rank_that_joined_later_is_of_the_run_that_it_took_part_in(
        self, tmp_path: Path, sidecar: bool
    ) -> None:
        job(tmp_path, {0: 1, 1: 1}, 0, 10, sidecar=sidecar)
        job(tmp_path, {0: 2, 1: 2, 2: 1}, 20, 30, sidecar=sidecar)
        job(tmp_path, {0: 3, 1: 3, 2: 2}, 40, 50, sidecar=sidecar)
        assert runs(tmp_path, 1, 2, 3) == [
            [(0, 1), (1, 1)], [(0, 2), (1, 2), (2, 1)], [(0, 3), (1, 3), (2, 2)],
        ]  # fmt: skip

    def test_a_rank_that_left_is_of_the_runs_before(self, tmp_path: Path, sidecar: bool) -> None:
        job(tmp_path, {0: 1, 1: 1, 2: 1}, 0, 10, sidecar=sidecar)
        job(tmp_path, {0: 2, 1: 2}, 20, 30, sidecar=sidecar)
        assert runs(tmp_path, 1, 2) == [[(0, 1), (1, 1), (2, 1)], [(0, 2), (1, 2)]]

    def test_runs_keep_their_numbers_when_the_first_is_deleted(self, tmp_path: Path, sidecar: bool) -> None:
        job(tmp_path, {0: 2, 1: 2}, 20, 30, sidecar=sidecar)
        job(tmp_path, {0: 3, 1: 3}, 40, 50, sidecar=sidecar)
        assert runs(tmp_path, 2, 3) == [[(0, 2), (1, 2)], [(0, 3), (1, 3)]]
        with pytest.raises(
            ConfigurationError, match=r"There is no run 1 in these files. The runs in them: 2, 3"
        ):
            read_timings(tmp_path, incarnations=1)

    def test_no_two_runs_have_one_number(self, tmp_path: Path, sidecar: bool) -> None:
        job(tmp_path, {0: 1}, 0, 10, sidecar=sidecar)
        job(tmp_path, {0: 2, 1: 1}, 20, 30, sidecar=sidecar)
        job(tmp_path, {1: 2}, 40, 50, sidecar=sidecar)
        assert runs(tmp_path, 1, 2, 3) == [[(0, 1)], [(0, 2), (1, 1)], [(1, 2)]]


def test_rows_of_runs_that_are_not_asked_for_are_not_held(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        job(tmp_path, {0: number, 1: number}, 20 * number, 20 * number + 10, sidecar=False)
    sources = find_sources([tmp_path])
    of_run(sources, 2)
    assert [source.lifetime is not None for source in sources] == [True] * 6
    assert not any("parsed" in vars(source) for source in sources)


@pytest.mark.parametrize("number", [0, -1, True, 1.0, "2", None])
def test_what_is_no_number_of_a_run_is_refused(number: Any, tmp_path: Path) -> None:
    job(tmp_path, {0: 1}, 0, 10, sidecar=True)
    with pytest.raises(ConfigurationError, match=r"incarnations=|There is no run"):
        read_timings(tmp_path, incarnations=number)


@pytest.mark.parametrize("text", ["0", "-1", "latest", "2.0", "", "last,1"])
def test_the_command_line_says_what_a_run_may_be(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["summary", str(tmp_path), f"--run={text}"])
    assert "say last, all, or the number of a run, such as 2" in capsys.readouterr().err


def test_a_run_that_is_not_there_is_an_error_of_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job(tmp_path, {0: 1}, 0, 10, sidecar=True)
    assert main(["summary", str(tmp_path), "--run", "2"]) == 2
    assert "The runs in them: 1." in capsys.readouterr().err


# -- elastic restarts under torchrun -------------------------------------------------------------------


@pytest.fixture(
    scope="module",
    params=[slow(3, "three starts under torchrun; the files of such runs are told apart above")],
    ids="{} ranks".format,
)
def restarted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs: the first without a logger on rank 2, the second ended by SIGKILL."""
    folder = tmp_path_factory.mktemp("restarted") / "logs"
    launched = run_under_torchrun(
        request.param, PROGRAMS / "restarted.py", str(folder), launcher=["--max-restarts", "2"]
    )
    assert launched.returncode == 0, launched.stderr
    return folder


def read(folder: Path, incarnations: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_timings(folder, incarnations=incarnations)


RANKS = {1: [0, 1], 2: [0, 1, 2], 3: [0, 1, 2]}


@pytest.mark.parametrize("run", [1, 2, 3, "latest"])
def test_of_each_run_its_rows_and_no_others_are_read(run: Any, restarted: Path) -> None:
    number = 3 if run == "latest" else run
    rows = read(restarted, run).query("operation == 'ALLREDUCE'")
    assert sorted(set(rows["rank"])) == RANKS[number]
    assert set(rows["message_size_bytes"]) == {number * BYTES}
    assert (rows.groupby("rank").size() == N_ITERATIONS).all()
    incarnations = rows.groupby("rank")["incarnation"].first().to_dict()
    assert incarnations == {rank: number - (rank == 2) for rank in RANKS[number]}


@pytest.mark.parametrize("run", [2, 3, "latest"])
def test_the_collectives_of_one_run_are_whole(run: Any, restarted: Path) -> None:
    matched = match_collectives(read(restarted, run)).query("operation == 'ALLREDUCE'")
    assert len(matched) == 3 * N_ITERATIONS
    assert set(matched["state"]) == {"complete"}


def test_all_runs_together_have_the_rows_of_each(restarted: Path) -> None:
    rows = read(restarted, "all").query("operation == 'ALLREDUCE'")
    assert rows.groupby("message_size_bytes").size().to_dict() == {
        number * BYTES: N_ITERATIONS * len(ranks) for number, ranks in RANKS.items()
    }


@pytest.mark.parametrize(("run", "ranks"), [("1", 2), ("2", 3), ("3", 3), ("last", 3), ("all", 3)])
def test_the_command_line_chooses_the_same(
    run: str, ranks: int, restarted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stragglers", str(restarted), "--run", run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] is not None
    assert main(["summary", str(restarted), "--run", run, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert len({row["rank"] for row in summary["ranks"]}) == ranks
    counted = {
        (row["rank"], row["incarnation"]): row["count"]
        for row in summary["operations"]
        if row["operation"] == "ALLREDUCE"
    }
    assert set(counted.values()) == {N_ITERATIONS}
    assert len(counted) == (8 if run == "all" else ranks)
