"""The exit code of ``timing-logger run`` is the job's, whatever has become of its output and its folders."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from timed_jobs import ENVIRONMENT, PROGRAMS, RUN, timed


def shell(script: str, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a shell script in which ``$@`` is the command ``timing-logger run`` with arguments."""
    command = ["sh", "-c", script, "sh", *map(str, RUN), *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
        env={**os.environ, **ENVIRONMENT},
        check=False,
    )


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize(
    "redirection", ["2>&-", "2>/dev/full", ">&-", ">/dev/full", ">&- 2>&-", "<&- >&- 2>&-", ">/dev/full 2>&1"]
)
def test_the_exit_code_is_the_jobs_though_nothing_can_be_said(
    redirection: str, code: int, tmp_path: Path
) -> None:
    job = shell(f'"$@" {redirection}', "--log-dir", tmp_path, "--", "sh", "-c", f"exit {code}")
    assert job.returncode == code
    assert "Traceback" not in job.stderr


@pytest.mark.slow
def test_the_exit_code_is_the_jobs_though_the_verdict_cannot_be_said(tmp_path: Path) -> None:
    job = shell('"$@" 2>/dev/full', "--log-dir", tmp_path, "--", sys.executable, PROGRAMS / "alone.py")
    assert job.returncode == 0
    assert list(tmp_path.glob("timing-rank*.csv"))


def test_the_exit_code_is_the_jobs_though_the_report_cannot_be_written(tmp_path: Path) -> None:
    program = (
        "from timing_logger import init_timing_logger, shutdown_timing_logger\n"
        f"init_timing_logger(0, {str(tmp_path)!r}).record_timing('MINE', 1.0); shutdown_timing_logger()\n"
        "raise SystemExit(3)"
    )
    nowhere = tmp_path / "no" / "report.html"
    job = timed(tmp_path, [sys.executable, "-c", program], "--report", nowhere)
    assert job.returncode == 3
    assert "Traceback" not in job.stderr
    assert "timing-logger: the job has ended" in job.stderr


def test_a_job_may_remove_the_working_folder(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    for log_dir in ("logs", tmp_path / "logs"):
        folder.mkdir(exist_ok=True)
        remove = f"rm -r {shlex.quote(str(folder))}; exit 3"
        job = shell('"$@"', "--log-dir", log_dir, "--", "sh", "-c", remove, cwd=folder)
        assert job.returncode == 3
        assert "Traceback" not in job.stderr
        assert "nothing was recorded in" in job.stderr


@pytest.mark.parametrize("log_dir", ["elsewhere", None])
def test_a_job_is_run_where_the_working_folder_is_gone(log_dir: str | None, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    options = ["--log-dir", tmp_path / log_dir] if log_dir else []
    program = "import os; print(os.path.isdir('/')); raise SystemExit(3)"
    job = shell('rmdir ../work && "$@"', *options, "--", sys.executable, "-c", program, cwd=folder)
    assert (job.returncode, job.stdout) == (3, "True\n"), job.stderr
    assert "Traceback" not in job.stderr
    assert "nothing was recorded" in job.stderr
