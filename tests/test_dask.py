"""On the workers of a Dask scheduler every command says what it says on this machine."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from simulated_runs import data_parallel, factors
from timing_files import write_table

from timing_logger.cli import main
from timing_logger.cli.questions import QUESTIONS

_WHY = "Dask is not installed (pip install 'timing_logger[cluster]')"
distributed = pytest.importorskip("distributed", reason=_WHY)

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


LATER = ["--iterations", "1:"]
ASKED = [[question.name, *(LATER if question.of_iterations else [])] for question in QUESTIONS]


@pytest.mark.slow
@pytest.mark.parametrize("question", [*ASKED, ["summary", "--by", "layer", *LATER]], ids=" ".join)
def test_the_command_line_asks_the_workers_of_a_scheduler(
    folder: Path, client: Any, capsys: pytest.CaptureFixture[str], question: list[str]
) -> None:
    command = [*question, str(folder), "--ranks", "0-2"]
    assert main(command) == 0
    expected = capsys.readouterr().out
    assert main([*command, "--scheduler", client.scheduler.address]) == 0
    said = capsys.readouterr().out
    assert said.startswith(expected)
    assert said.removeprefix(expected).startswith("\nRead by the workers of the scheduler")


def test_a_report_by_the_workers_of_a_scheduler_is_that_of_all_rows(
    folder: Path, client: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(folder), "-o", str(tmp_path / "whole.html")]) == 0
    address = client.scheduler.address
    assert main(["report", str(folder), "-o", str(tmp_path / "dask.html"), "--scheduler", address]) == 0
    assert "Read by the workers of the scheduler, in 1 block of collectives." in capsys.readouterr().out
    assert (tmp_path / "dask.html").read_text() == (tmp_path / "whole.html").read_text()


def test_speeds_of_another_run_are_measured_by_the_workers_too(
    folder: Path, client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["compression", str(folder), "--dense", str(folder), "--json"]
    assert main(command) == 0
    expected = capsys.readouterr().out
    assert main([*command, "--scheduler", client.scheduler.address]) == 0
    assert capsys.readouterr().out == expected
