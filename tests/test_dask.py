"""On a cluster of two workers every analysis says what it says of a table of pandas."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from simulated_runs import data_parallel, factors
from timing_files import write_table

from timing_logger import analysis, read_timings
from timing_logger.cli import main
from timing_logger.errors import ConfigurationError

_WHY = "Dask is not installed (pip install 'timing_logger[cluster]')"
distributed = pytest.importorskip("distributed", reason=_WHY)
dataframe = pytest.importorskip("dask.dataframe", reason=_WHY)

LIMIT_S = 120


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raises in the main thread: a cluster that hangs must not hang the tests."""

    def too_late(*_: Any) -> None:
        raise TimeoutError(f"not done in {seconds} s")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def limited() -> Iterator[None]:
    with time_limit(LIMIT_S):
        yield


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        time_limit(LIMIT_S),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def a_run() -> pd.DataFrame:
    """Three ranks, of which rank 2 is slow for a while; some layers are compressed."""
    slow = factors(40, 3, noise=0.1)
    slow[10:35, 2] *= 2
    run = data_parallel(slow, phases_ms={"COMPRESS": 2.0, "BACKWARD": 20.0, "DECOMPRESS": 1.0})
    sends = run["operation"] == "ALLREDUCE"
    return run.assign(
        message_size_bytes=run["message_size_bytes"].mask(sends, 1 << 20),
        layer_name=np.where(sends & (run["iteration"] % 2 == 0), "dense", "layer1"),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("run"), a_run())


def test_the_partitions_are_the_files_with_the_types_of_pandas(folder: Path, client: Any) -> None:
    found, expected = read_timings(folder, engine="dask"), read_timings(folder, engine="pandas")
    assert isinstance(found, dataframe.DataFrame)
    assert found.npartitions == 3
    assert found.dtypes.to_dict() == expected.dtypes.to_dict()
    pd.testing.assert_frame_equal(found.compute().reset_index(drop=True), expected)
    only = read_timings(folder, engine="dask", columns=["operation", "start_s"])
    assert list(only.columns) == ["operation", "rank", "incarnation", "start_s"]
    assert only.compute().shape == (len(expected), 4)


ANALYSES: dict[str, Callable[[Any], Any]] = {
    name: getattr(analysis, name)
    for name in (
        "bandwidth", "compression", "efficiencies", "match_collectives", "message_waits", "overlap", "scores",
        "spread_between_ranks", "summarize", "waits", "windows",
    )
}  # fmt: skip


QUESTIONS = [
    ["summary"],
    ["waits"],
    ["bandwidth"],
    ["stragglers"],
    ["overlap"],
    ["compression"],
    ["summary", "--by", "layer"],
]


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_the_command_line_asks_the_workers_of_a_scheduler(
    folder: Path, client: Any, capsys: pytest.CaptureFixture[str], question: list[str]
) -> None:
    command = [*question, str(folder), "--ranks", "0-2", "--iterations", "1:"]
    assert main(command) == 0
    expected = capsys.readouterr().out
    assert main([*command, "--scheduler", client.scheduler.address]) == 0
    said = capsys.readouterr().out
    assert said.startswith(expected)
    assert said.removeprefix(expected).startswith("\nRead with --engine dask")


def test_a_report_by_the_workers_of_a_scheduler_is_that_of_all_rows(
    folder: Path, client: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(folder), "-o", str(tmp_path / "whole.html")]) == 0
    address = client.scheduler.address
    assert main(["report", str(folder), "-o", str(tmp_path / "dask.html"), "--scheduler", address]) == 0
    assert "Read with --engine dask, in 1 block of collectives." in capsys.readouterr().out
    assert (tmp_path / "dask.html").read_text() == (tmp_path / "whole.html").read_text()


def test_speeds_of_another_run_are_measured_by_the_workers_too(
    folder: Path, client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["compression", str(folder), "--dense", str(folder), "--json"]
    assert main(command) == 0
    expected = capsys.readouterr().out
    assert main([*command, "--scheduler", client.scheduler.address]) == 0
    assert capsys.readouterr().out == expected


def test_without_an_address_this_machine_is_the_cluster(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["overlap", str(folder), "--engine", "dask"]) == 0
    said = capsys.readouterr().out
    assert main(["overlap", str(folder)]) == 0
    assert said == capsys.readouterr().out + "\nRead with --engine dask, file by file.\n"


def test_options_of_analyses_hold_for_partitions_too(folder: Path, client: Any) -> None:
    rows, partitions = read_timings(folder, engine="pandas"), read_timings(folder, engine="dask")
    by = ["layer_name", "operation"]
    pd.testing.assert_frame_equal(analysis.summarize(partitions, by), analysis.summarize(rows, by))
    roles = {0: "a", 1: "a", 2: "b"}
    assert analysis.stragglers(partitions, roles=roles) == analysis.stragglers(rows, roles=roles)
    pd.testing.assert_frame_equal(analysis.compression(rows, partitions), analysis.compression(rows, rows))


def test_partitions_that_tear_a_process_are_refused(folder: Path, client: Any) -> None:
    torn = read_timings(folder, engine="dask").repartition(npartitions=7)
    with pytest.raises(ConfigurationError, match=r"the rows of rank \d are in several partitions"):
        analysis.overlap(torn)


@pytest.mark.parametrize("name", ANALYSES)
def test_an_analysis_says_the_same_of_partitions(folder: Path, client: Any, name: str) -> None:
    expected = ANALYSES[name](read_timings(folder, engine="pandas"))
    assert len(expected) or name == "message_waits"
    pd.testing.assert_frame_equal(
        ANALYSES[name](read_timings(folder, engine="dask")), expected, check_exact=True
    )


def test_the_verdict_and_the_overview_are_the_same(folder: Path, client: Any) -> None:
    rows, partitions = read_timings(folder, engine="pandas"), read_timings(folder, engine="dask")
    verdict = analysis.stragglers(partitions)
    assert verdict == analysis.stragglers(rows)
    assert verdict.ranks == (2,)
    found, expected = analysis.overview(partitions), analysis.overview(rows)
    for name in ("operations", "ranks", "spread", "statuses"):
        pd.testing.assert_frame_equal(getattr(found, name), getattr(expected, name), check_exact=True)
    assert (found.counters, found.files, found.left_out) == (
        expected.counters,
        expected.files,
        expected.left_out,
    )
