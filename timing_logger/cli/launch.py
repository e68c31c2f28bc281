"""``timing-logger run -- COMMAND``: time a job whose code is unchanged, and say at its end who was slow."""

from __future__ import annotations

import os
import signal
import subprocess
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType

from timing_logger.autologging.native_mpi import build
from timing_logger.autologging.native_mpi.build import preloadable_library
from timing_logger.autologging.settings import Settings, hang_after_s
from timing_logger.cli.commands import report
from timing_logger.cli.end_of_run import about, files_of_run, said_of_run, timing_files
from timing_logger.cli.hang_notice import HangNotice, has_ended
from timing_logger.cli.monitored import monitored
from timing_logger.cli.queries import Answer
from timing_logger.cli.shown_progress import shown
from timing_logger.cli.stderr import say
from timing_logger.errors import ConfigurationError, LogPathError
from timing_logger.run_identity import VARIABLE, id_of_new_run

SITE = Path(__file__).parents[1] / "autologging" / "site"

_LOOK_S = 60.0
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)


def run(arguments: Namespace) -> Answer:
    """Run the job, and report on it to stderr; the exit code is the job's, whatever becomes of the report.

    A job that a signal ended ends this process by the same signal.
    """
    command = arguments.job[1:] if arguments.job[:1] == ["--"] else arguments.job
    if not command:
        raise ConfigurationError("COMMAND: nothing to run. Name it behind --, as in: -- torchrun train.py")
    if arguments.native_mpi and arguments.every != 1:
        raise ConfigurationError("--every: --native-mpi knows no iterations. Leave one of the two out.")
    if (log_dir := _made(arguments.log_dir)) is None:
        status = _status_of(command, dict(os.environ))
        say(
            "nothing was recorded: the working folder is gone. Name one elsewhere, as in --log-dir /tmp/logs."
        )
    else:
        status = _timed(command, arguments, log_dir)
    if status < 0:
        _end_by(-status)
    return Answer("", status)


def _made(folder: str) -> Path | None:
    """Make the folder of the timing files; None if it is to be in a working folder that is gone."""
    try:
        log_dir = Path(os.path.abspath(folder))
    except OSError:
        return None
    try:
        log_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LogPathError(f"--log-dir: {str(log_dir)!r} cannot be made: {error.strerror}.") from error
    return log_dir


def _timed(command: list[str], arguments: Namespace, log_dir: Path) -> int:
    before = timing_files(log_dir)
    run_id = id_of_new_run()
    environment = _environment_of_native_mpi if arguments.native_mpi else _environment
    settings = Settings(
        log_dir=str(log_dir),
        every=arguments.every,
        batch_work=not arguments.no_batch_work,
        host_counters=not arguments.no_host_counters,
        stack_samples=arguments.sample_stacks,
    )
    files = partial(files_of_run, log_dir, run_id, before)
    with monitored(arguments, log_dir) as monitor:
        notice = None if arguments.quiet else HangNotice(log_dir, files, hang_after_s(), monitor)
        status = _status_of(command, {**os.environ, **environment(settings), VARIABLE: run_id}, notice)
    try:
        with shown("run"):
            _report(arguments, log_dir, files(), run_id)
    except Exception as error:
        say(f"the job has ended; what was recorded of it, in {log_dir}, could not be judged: {error!r}")
    return status


def _status_of(command: list[str], environment: dict[str, str], notice: HangNotice | None = None) -> int:
    job = _started(command, environment)
    with _signals_go_to(job):
        if notice is not None:
            return notice.wait(job)
        while not has_ended(job, _LOOK_S):
            pass
        return job.wait()


def _report(arguments: Namespace, log_dir: Path, written: list[Path], run_id: str) -> None:
    if not arguments.quiet:
        say(*said_of_run(log_dir, written, run_id, in_python=not arguments.native_mpi))
    if arguments.report and written:
        say(report(about(written, output=arguments.report)).text.splitlines()[0])


def _environment(settings: Settings) -> dict[str, str]:
    return {**settings.to_environment(), "PYTHONPATH": _before("PYTHONPATH", SITE)}


def _environment_of_native_mpi(settings: Settings) -> dict[str, str]:
    return {build.VARIABLE: settings.log_dir, "LD_PRELOAD": _before("LD_PRELOAD", preloadable_library())}


def _before(variable: str, path: Path) -> str:
    """Return a list of paths for a variable of the environment: this one, then what it has already."""
    return os.pathsep.join(filter(None, (str(path), os.environ.get(variable))))


def _started(command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start the job on this process's terminal."""
    try:
        return subprocess.Popen(command, env=environment)
    except OSError as error:
        raise ConfigurationError(f"COMMAND: {command[0]!r} cannot be run: {error.strerror}.") from error


@contextmanager
def _signals_go_to(job: subprocess.Popen[bytes]) -> Iterator[None]:
    """Hand signals on to the job. A terminal sends Ctrl-C to both: the job alone decides what it means."""

    def hand_on(number: int, _: FrameType | None) -> None:
        job.send_signal(number)

    before = {number: signal.signal(number, hand_on) for number in _PASSED_ON}
    before |= {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_by(number: int) -> None:
    """End this process by the signal that ended the job, so that a shell sees the same."""
    with suppress(OSError):  # of SIGKILL nothing can be changed
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
