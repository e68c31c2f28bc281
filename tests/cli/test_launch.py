"""``timing-logger run`` ends as its job does, whatever has become of its output and its folders."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from argparse import Namespace
from pathlib import Path
from select import select
from typing import Any

import pytest
import warm
from limits import LIMIT_S, PROCESS_S
from slow import slow
from timed_jobs import ENVIRONMENT, PROGRAMS, RUN, timed, timed_warm

from timing_logger.cli import launch, main
from timing_logger.cli import launch as hang_notice
from timing_logger.cli.launch import has_ended
from timing_logger.cli.queries import Answer
from timing_logger.errors import ConfigurationError


def shell(
    script: str, *arguments: object, cwd: Path | None = None, interpreter: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Run a shell script in which ``$@`` is the command ``timing-logger run`` with arguments."""
    command = ["sh", "-c", script, "sh", interpreter, *map(str, RUN[1:]), *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PROCESS_S,
        cwd=cwd,
        env={**os.environ, **ENVIRONMENT, warm.SITE: "1"},
        check=False,
    )


@pytest.mark.slow("jobs of tests below end with 3 and 7, which the command does, too")
@pytest.mark.parametrize("code", [0, 3, 255])
def test_the_exit_code_is_the_jobs(tmp_path: Path, code: int) -> None:
    assert timed(tmp_path, [sys.executable, "-c", f"raise SystemExit({code})"]).returncode == code


@pytest.mark.parametrize(
    "number",
    [*(slow(one, "as SIGTERM does, for which the command has a handler")
       for one in (signal.SIGKILL, signal.SIGSEGV)), signal.SIGTERM],
)  # fmt: skip
def test_a_job_that_a_signal_ends_ends_the_command_by_it(tmp_path: Path, number: signal.Signals) -> None:
    program = f"""
import os, resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.kill(os.getpid(), {number:d})
"""
    assert timed(tmp_path, [sys.executable, "-c", program]).returncode == -number


def test_signals_are_handed_on_to_the_job(tmp_path: Path) -> None:
    numbers = [signal.SIGUSR1, signal.SIGHUP, signal.SIGTERM]
    program = f"""
import signal, sys, time
came = []
def came_one(number, frame):
    print(number, flush=True)
    came.append(number)
    if len(came) == 3:
        sys.exit(7)
for number in {[*map(int, numbers)]}:
    signal.signal(number, came_one)
print("ready", flush=True)
while True:
    time.sleep(1)
"""
    command = [*RUN, "--log-dir", tmp_path, "--quiet", "--", sys.executable, "-c", program]
    job = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, env={**os.environ, **ENVIRONMENT})
    assert job.stdout is not None
    assert job.stdout.readline() == b"ready\n"
    for number in numbers:
        job.send_signal(number)
        assert job.stdout.readline() == b"%d\n" % number
    assert job.wait(LIMIT_S) == 7
    job.stdout.close()


def test_a_signal_that_does_not_end_the_wait_for_the_job_is_handed_on_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one that comes just before the wait begins, or to another thread: Python's handler comes later."""
    job = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert job.stdin is not None
    waits = threading.Event()

    def select_seen(*arguments: Any) -> Any:
        waits.set()
        return select(*arguments)

    def send() -> None:
        waits.wait()
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    monkeypatch.setattr(hang_notice, "select", select_seen)
    before = signal.signal(signal.SIGUSR1, lambda *_: job.kill())
    sender = threading.Thread(target=send)
    try:
        sender.start()
        assert has_ended(job, LIMIT_S)
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)
        job.kill()
        job.stdin.close()
        job.wait()


def refused(capfd: pytest.CaptureFixture[str], folder: Path, *command: str) -> str:
    """What the command says that ends with 2, and without the job."""
    assert main(["run", "--log-dir", str(folder), "--", *command]) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    return captured.err


def test_what_cannot_be_run_is_an_error_that_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = refused(capfd, tmp_path, "no-such-program")
    assert said == "timing-logger: COMMAND: 'no-such-program' cannot be run: No such file or directory.\n"


def test_nothing_to_run_is_an_error_that_says_what_to_type(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = refused(capfd, tmp_path)
    assert said.count("\n") == 1
    assert "-- torchrun train.py" in said


def test_a_folder_that_cannot_be_made_is_an_error_before_the_job_starts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file") in refused(capfd, tmp_path / "file", "echo", "ran")


@pytest.mark.parametrize("code", [slow(0, "a code that is not 0 is the harder case"), 3])
@pytest.mark.parametrize(
    "redirection",
    [
        "<&- >&- 2>&-",
        *(slow(one, "to have further streams closed or full is the harder case")
          for one in (">/dev/full 2>&1", ">&-", ">/dev/full", ">&- 2>&-", "2>&-", "2>/dev/full")),
    ],
)  # fmt: skip
def test_the_exit_code_is_the_jobs_though_nothing_can_be_said(
    redirection: str, code: int, tmp_path: Path
) -> None:
    job = shell(f'"$@" {redirection}', "--log-dir", tmp_path, "--", "sh", "-c", f"exit {code}")
    assert job.returncode == code
    assert "Traceback" not in job.stderr


@pytest.mark.slow("a job that is timed; where nothing at all can be said, the exit code is the same above")
def test_the_exit_code_is_the_jobs_though_the_verdict_cannot_be_said(tmp_path: Path) -> None:
    arguments = "--log-dir", tmp_path, "--", warm.python(), PROGRAMS / "alone.py"
    job = shell('"$@" 2>/dev/full', *arguments, interpreter=warm.python())
    assert job.returncode == 0
    assert list(tmp_path.glob("timing-rank*.csv"))


@pytest.mark.slow("once the job has ended, a verdict that cannot be said changes as little, above")
def test_the_exit_code_is_the_jobs_though_the_report_cannot_be_written(tmp_path: Path) -> None:
    program = (
        "from timing_logger import init_timing_logger, shutdown_timing_logger\n"
        f"init_timing_logger(0, {str(tmp_path)!r}).record_timing('MINE', 1.0); shutdown_timing_logger()\n"
        "raise SystemExit(3)"
    )
    nowhere = tmp_path / "no" / "report.html"
    job = timed_warm(tmp_path, [sys.executable, "-c", program], "--report", nowhere)
    assert job.returncode == 3
    assert "Traceback" not in job.stderr
    assert "timing-logger: the job has ended" in job.stderr


@pytest.mark.slow("a rarer case than a folder that is gone from the beginning")
@pytest.mark.parametrize("log_dir", ["logs", "../logs"])
def test_a_job_may_remove_the_working_folder(log_dir: str, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    logs = os.path.normpath(folder / log_dir) if log_dir.startswith("..") else log_dir
    remove = f"rm -r {shlex.quote(str(folder))}; exit 3"
    job = shell('"$@"', "--log-dir", logs, "--", "sh", "-c", remove, cwd=folder)
    assert job.returncode == 3
    assert "Traceback" not in job.stderr
    assert "nothing was recorded in" in job.stderr


@pytest.mark.slow("a rare place to start a job from, which changes its exit code as little as no output does")
@pytest.mark.parametrize("log_dir", [slow("elsewhere", "to have no folder for the logs is harder"), None])
def test_a_job_is_run_where_the_working_folder_is_gone(log_dir: str | None, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    options = ["--log-dir", tmp_path / log_dir] if log_dir else []
    program = "import os; print(os.path.isdir('/')); raise SystemExit(3)"
    job = shell('rmdir ../work && "$@"', *options, "--", sys.executable, "-c", program, cwd=folder)
    assert (job.returncode, job.stdout) == (3, "True\n"), job.stderr
    assert "Traceback" not in job.stderr
    assert "nothing was recorded" in job.stderr


@pytest.mark.parametrize("options", [[], ["--quiet"]])
def test_a_hang_is_told_unless_a_job_is_to_be_timed_quietly(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notices: list[object] = []

    def ended(command: list[str], environment: dict[str, str], notice: object) -> int:
        notices.append(notice)
        return 0

    monkeypatch.setattr(launch, "_status_of", ended)
    assert main(["run", *options, "--log-dir", str(tmp_path / "logs"), "true"]) == 0
    assert [notice is None for notice in notices] == [bool(options)]


# -- before the job and at its end -----------------------------------------------------------------------


@pytest.mark.parametrize(("known", "path"), [(None, "/mine"), ("", "/mine"), ("/a:/b", "/mine:/a:/b")])
def test_a_path_comes_before_those_that_are_there(
    known: str | None, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PATHS", raising=False)
    if known is not None:
        monkeypatch.setenv("PATHS", known)
    assert launch._before("PATHS", Path("/mine")) == path


class Job:
    """A job that keeps what signals it is sent."""

    def __init__(self) -> None:
        self.sent: list[int] = []

    def send_signal(self, number: int) -> None:
        self.sent.append(number)


def test_what_signals_do_is_as_before_once_the_job_has_ended() -> None:
    numbers = (*launch._PASSED_ON, signal.SIGINT, signal.SIGQUIT)
    before = [signal.getsignal(number) for number in numbers]
    job = Job()
    with launch._signals_go_to(job):  # type: ignore[arg-type]
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert job.sent == [signal.SIGUSR1, signal.SIGTERM]
    assert [signal.getsignal(number) for number in numbers] == before


def test_a_folder_is_made_with_those_above_it_and_may_be_there(tmp_path: Path) -> None:
    for _ in range(2):
        made = launch._made(str(tmp_path / "a" / "b"))
        assert made == tmp_path / "a" / "b"
        assert made.is_dir()


def test_a_folder_below_a_working_folder_that_is_gone_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(path: str) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os.path, "abspath", gone)
    assert launch._made("logs") is None


@pytest.mark.parametrize(("files", "said"), [(["a"], ["verdict", "page"]), ([], ["verdict"])])
def test_a_page_is_written_only_of_what_was_recorded_and_also_of_a_quiet_run(
    files: list[str], said: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(launch, "said_of_run", lambda *_, in_python: ["verdict" if in_python else "of MPI"])
    monkeypatch.setattr(launch, "report", lambda _: Answer("page\nand more\n"))
    written = [Path(file) for file in files]
    asked = Namespace(quiet=False, report="page.html", native_mpi=False)
    launch._report(asked, Path("logs"), written, "run")
    assert capsys.readouterr().err.splitlines() == [f"timing-logger: {line}" for line in said]
    launch._report(Namespace(**{**vars(asked), "quiet": True}), Path("logs"), written, "run")
    assert capsys.readouterr().err.splitlines() == [f"timing-logger: {line}" for line in said[1:]]
    launch._report(Namespace(quiet=False, report=None, native_mpi=True), Path("logs"), written, "run")
    assert capsys.readouterr().err == "timing-logger: of MPI\n"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"job": ["--"]}, "COMMAND: nothing to run"),
        ({"job": ["--", "x"], "native_mpi": True, "every": 2}, "--native-mpi knows no iterations"),
    ],
)
def test_what_cannot_be_timed_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        launch.run(Namespace(**{"native_mpi": False, "every": 1, **asked}))
