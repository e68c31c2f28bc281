"""On the workers of a Dask scheduler every command says what it says on this machine."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conditions import wait_for
from limits import PROCESS_S
from places import ROOT
from simulated_runs import data_parallel, factors
from slow import slow
from timing_files import write_table

from benchmarks.many_ranks import write_many_ranks
from timing_logger.cli import main
from timing_logger.cli.questions import QUESTIONS
from timing_logger.engine import rows, workers
from timing_logger.process import progress

_WHY = "Dask is not installed (pip install 'timing_logger[cluster]')"
distributed = pytest.importorskip("distributed", reason=_WHY)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises in the main thread: a cluster that hangs must not hang the tests."""

    def too_late(*_: Any) -> None:
        pytest.fail(f"not done in {seconds:g} s")  # which nobody takes for an error of the network

    before = signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def limited() -> Iterator[None]:
    with time_limit(PROCESS_S):
        yield


@pytest.fixture(
    scope="module",
    params=[False, slow(True, "workers in processes of their own, which take seconds to start")],
    ids=["threads", "processes"],
)
def client(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Two workers, which are spoken to by TCP."""
    alone = {"processes": request.param, "protocol": "tcp://", "dashboard_address": "127.0.0.1:0"}
    with (
        time_limit(PROCESS_S),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **alone) as local,
        distributed.Client(local) as client,
    ):
        yield client


def a_run() -> pd.DataFrame:
    """Three ranks, of which rank 2 is slow for a while; some layers are compressed."""
    slow = factors(30, 3, noise=0.1)
    slow[8:25, 2] *= 2
    run = data_parallel(slow, operations_ms={"COMPRESS": 2.0, "BACKWARD": 20.0, "DECOMPRESS": 1.0})
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


QUICK = ("bandwidth",)
AS_OF_QUICK = pytest.mark.slow("workers are asked in the same way as for bandwidth")


@pytest.mark.parametrize(
    "question",
    [
        pytest.param(asked, marks=[] if asked[0] in QUICK else [AS_OF_QUICK], id=" ".join(asked))
        for asked in [*ASKED, ["summary", "--by", "layer", *LATER]]
    ],
)
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


@pytest.mark.slow("asks workers all that single commands ask them")
def test_a_report_by_the_workers_of_a_scheduler_is_that_of_all_rows(
    folder: Path, client: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(folder), "-o", str(tmp_path / "whole.html")]) == 0
    address = client.scheduler.address
    assert main(["report", str(folder), "-o", str(tmp_path / "dask.html"), "--scheduler", address]) == 0
    assert "Read by the workers of the scheduler, batch by batch." in capsys.readouterr().out
    assert (tmp_path / "dask.html").read_text() == (tmp_path / "whole.html").read_text()


@pytest.mark.slow("test_run_communication_rows.py has such speeds; workers are asked as for bandwidth")
def test_speeds_of_another_run_are_measured_by_the_workers_too(
    folder: Path, client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["compression", str(folder), "--dense", str(folder), "--json"]
    assert main(command) == 0
    expected = capsys.readouterr().out
    assert main([*command, "--scheduler", client.scheduler.address]) == 0
    assert capsys.readouterr().out == expected


# -- a scheduler and workers in processes of their own ---------------------------------------------------

N_RANKS = 24
PROGRAM = [sys.executable, "-m", "dask"]


class Processes:
    """Workers of a scheduler, each of which may be killed, as the scheduler may if it has a process.

    Attributes:
        address: of the scheduler.
        scheduler: its process, if it was started here.
        workers: the processes of the workers, which nobody replaces.
    """

    def __init__(self, folder: Path, address: str = "") -> None:
        self._folder = folder
        self.workers: list[subprocess.Popen[bytes]] = []
        self.address, self.scheduler = (address, None) if address else self._started_scheduler()

    def _started_scheduler(self) -> tuple[str, subprocess.Popen[bytes]]:
        about = self._folder / "scheduler.json"
        scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", about
        )
        return json.loads(self._content_of(about, scheduler))["address"], scheduler

    def have_workers(self, least: int) -> None:
        """Start workers until there are so many, and wait until the scheduler knows those that live."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        alone = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0"]
        while len(self.workers) < least:
            self.workers.append(self._start("worker", self.address, *alone))
        with distributed.Client(self.address, timeout=PROCESS_S) as client:
            wait_for(lambda: len(client.nthreads()) == len(self.workers), "the workers, and no others")

    def kill_workers(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.wait()

    def end(self) -> None:
        for process in [*filter(None, [self.scheduler]), *self.workers]:
            process.kill()
            process.wait()

    def _start(self, *arguments: object) -> subprocess.Popen[bytes]:
        with (self._folder / "said").open("ab") as said:
            return subprocess.Popen(
                [*PROGRAM, *map(str, arguments)], cwd=self._folder, stdout=said, stderr=said
            )

    def _content_of(self, path: Path, writer: subprocess.Popen[bytes]) -> str:
        wait_for(
            lambda: path.exists() and path.read_text().endswith("}"),
            lambda: f"the scheduler, which said {(self._folder / 'said').read_text()}",
            by=writer,
        )
        return path.read_text()


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """The address of a scheduler that has no workers."""
    alone = {"processes": False, "protocol": "tcp://", "dashboard_address": "127.0.0.1:0"}
    with time_limit(PROCESS_S), distributed.LocalCluster(n_workers=0, **alone) as local:
        yield local.scheduler_address


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory, scheduler: str) -> Iterator[Processes]:
    """Workers that tests share, as each takes seconds to start; those that a test killed are gone."""
    started = Processes(tmp_path_factory.mktemp("dask"), scheduler)
    try:
        yield started
    finally:
        started.end()


@pytest.fixture
def whole_dask(tmp_path: Path) -> Iterator[Processes]:
    started = Processes(tmp_path)
    try:
        yield started
    finally:
        started.end()


@pytest.fixture(scope="module")
def many_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many") / "timing"
    write_many_ranks(folder, N_RANKS, 10)
    return folder


class AfterOneStep:
    """Hears of the work, and strikes when the first of several steps is done."""

    def __init__(self, strike: Callable[[], None]) -> None:
        self._strike = strike
        self.struck_at: tuple[progress.Stage, int] | None = None

    def begin(self, stage: progress.Stage, n_steps: int) -> None:
        self._begun = stage, n_steps

    def done(self, n_steps: int) -> None:
        if self._begun[0] == "reading" and self.struck_at is None:
            self.struck_at = self._begun
            self._strike()


def in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "batches_of", partial(rows.batches_of, n_bytes=15_000))


@pytest.mark.slow("starts two more processes; what no worker does is noticed where there is none")
@pytest.mark.parametrize("question", ["summary", "waits"])
def test_what_a_killed_worker_had_done_another_does_again(
    many_ranks: Path,
    dask: Processes,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    question: str,
) -> None:
    assert main([question, str(many_ranks), "--json"]) == 0
    expected = capsys.readouterr().out
    in_small_batches(monkeypatch)
    dask.have_workers(2)

    def kill_one() -> None:
        dask.workers[0].kill()
        dask.workers[0].wait()

    heard = AfterOneStep(kill_one)
    with progress.heard_by(heard):
        assert main([question, str(many_ranks), "--json", "--scheduler", dask.address]) == 0
    assert heard.struck_at is not None
    assert heard.struck_at[1] > 2, "it was killed in between"
    assert json.loads(capsys.readouterr().out) == json.loads(expected)


@pytest.mark.slow("that there is no scheduler is quick, and is refused in the same way")
def test_where_there_is_no_worker_that_is_said(
    folder: Path, dask: Processes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dask.kill_workers()  # those that another test has left
    dask.have_workers(0)
    monkeypatch.setattr(workers, "PATIENCE_S", 0.6)
    monkeypatch.setattr(workers, "_LOOK_S", 0.1)
    assert main(["summary", str(folder), "--scheduler", dask.address]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"--scheduler: {dask.address} has had no worker for 1 s." in said.err


@pytest.mark.slow("starts a worker to kill it; a scheduler that has none says the same above")
def test_where_all_workers_are_gone_that_is_said(
    many_ranks: Path,
    dask: Processes,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_small_batches(monkeypatch)
    monkeypatch.setattr(workers, "PATIENCE_S", 1.0)
    dask.have_workers(1)
    with progress.heard_by(AfterOneStep(dask.kill_workers)):
        assert main(["summary", str(many_ranks), "--scheduler", dask.address]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"--scheduler: {dask.address} has had no worker for 1 s." in said.err


@pytest.mark.slow("starts Dask twice; that the work cannot be done is also said where there is no worker")
def test_where_the_scheduler_dies_that_is_said(
    many_ranks: Path,
    whole_dask: Processes,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_small_batches(monkeypatch)
    whole_dask.have_workers(1)
    caplog.clear()
    assert whole_dask.scheduler is not None
    with progress.heard_by(AfterOneStep(whole_dask.scheduler.kill)):
        assert main(["summary", str(many_ranks), "--scheduler", whole_dask.address]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"--scheduler: the work was not finished at {whole_dask.address}" in said.err
    assert said.err.count("\n") == 1
    assert [record for record in caplog.records if record.name.startswith("distributed")] == []


def nobodys_address() -> str:
    with socket.socket() as nobodys:
        nobodys.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{nobodys.getsockname()[1]}"


@pytest.mark.parametrize(
    "address",
    [
        "",
        *(
            slow(one, "no address; that nobody answers is said alike")
            for one in ("nonsense", "ftp://127.0.0.1:8786")
        ),
    ],
)
def test_a_scheduler_that_is_not_there_is_one_error(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr(workers, "_CONNECT_S", 0.2)
    address = address or nobodys_address()
    with time_limit(25):  # Dask's own limit is 30 s
        assert main(["summary", str(folder), "--scheduler", address]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert f"--scheduler: no Dask scheduler answers at {address!r}" in said.err


def test_the_page_of_large_runs_does_what_it_says(client: Any, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "large-runs.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    write_table(tmp_path / "logs" / "timing", a_run())
    here = snippet.replace("/shared", str(tmp_path)).replace("tcp://host:8786", client.scheduler.address)
    exec(here, its := {})
    assert its["verdict"].ranks == (2,)
