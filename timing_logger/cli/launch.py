"""``timing-logger run -- COMMAND``: time a job whose code is unchanged, and say at its end who was slow."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from timing_logger.autologging.native_mpi import build
from timing_logger.autologging.settings import PROBLEMS, Settings
from timing_logger.cli.asking import Answer, ask
from timing_logger.cli.commands import report
from timing_logger.errors import ConfigurationError, LogPathError, TimingLoggerError

SITE = Path(__file__).parents[1] / "autologging" / "site"

_NO_RANK = (
    "nothing was recorded in {}: no process of the job made a torch process group, used mpi4py, "
    "loaded batches or stepped an optimizer of torch; or Python was started with -E, -I or -S."
)
_NO_MPI = (
    "nothing was recorded in {}: no process of the job initialised MPI with MPI_Init; or its launcher does "
    f"not hand on LD_PRELOAD and {build.VARIABLE}, as mpiexec of Open MPI does on other hosts with -x."
)

_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)


def run(arguments: Namespace) -> Answer:
    """Run the job, and report on it to stderr; the exit code is the job's.

    A job that a signal ended ends this process by the same signal.
    """
    log_dir = Path(arguments.log_dir).absolute()
    before = _timing_files(log_dir)
    command = arguments.job[1:] if arguments.job[:1] == ["--"] else arguments.job
    if not command:
        raise ConfigurationError("COMMAND: nothing to run. Name it behind --, as in: -- torchrun train.py")
    if arguments.native_mpi and arguments.every != 1:
        raise ConfigurationError("--every: --native-mpi knows no iterations. Leave one of the two out.")
    environment = _environment_of_native_mpi if arguments.native_mpi else _environment
    try:
        log_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LogPathError(f"--log-dir: {str(log_dir)!r} cannot be made: {error.strerror}.") from error
    job = _started(command, environment(Settings(log_dir=str(log_dir), every=arguments.every)))
    with _signals_go_to(job):
        status = job.wait()
    written = sorted(_timing_files(log_dir) - before)
    if not arguments.quiet:
        nothing = _NO_MPI if arguments.native_mpi else _NO_RANK
        said = (
            _verdict(log_dir, written, in_python=not arguments.native_mpi)
            if written
            else [nothing.format(log_dir)]
        )
        _say(*said, *_problems(log_dir))
    if arguments.report and written:
        _say(report(_about(written, output=arguments.report)).text.splitlines()[0])
    if status < 0:
        _end_by(-status)
    return Answer("", status)


def _environment(settings: Settings) -> dict[str, str]:
    return {**os.environ, **settings.to_environment(), "PYTHONPATH": _before("PYTHONPATH", SITE)}


def _environment_of_native_mpi(settings: Settings) -> dict[str, str]:
    preloaded = _before("LD_PRELOAD", build.library())
    return {**os.environ, build.VARIABLE: settings.log_dir, "LD_PRELOAD": preloaded}


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
    sys.stderr.flush()
    with suppress(OSError):  # of SIGKILL nothing can be changed
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


# -- what is said at the end -----------------------------------------------------------------------------


def _say(*lines: str) -> None:
    sys.stderr.write("".join(f"timing-logger: {line}\n" for line in lines))


def _timing_files(log_dir: Path) -> set[Path]:
    return set(log_dir.glob("timing-rank*.csv"))


def _about(written: list[Path], **further: str) -> Namespace:
    """Return the arguments of a command that is asked about all rows of these files."""
    every_row = {"run": "latest", "ranks": None, "iterations": None, "engine": "auto", "scheduler": None}
    return Namespace(logdir=[str(path) for path in written], **every_row, **further)


def _verdict(log_dir: Path, written: list[Path], *, in_python: bool) -> list[str]:
    from timing_logger.analysis.stragglers.windows import STRAGGLERS
    from timing_logger.report._wording import count
    from timing_logger.report.verdict_wording import verdict_sentence, what_next

    try:
        verdict, _ = ask(_about(written), STRAGGLERS).answer
    except TimingLoggerError as error:
        return [str(error)]
    folder = shlex.quote(os.path.relpath(log_dir))
    return [
        *filter(None, (verdict.end.warning, verdict_sentence(verdict), in_python and what_next(verdict))),
        f"The timings of {count(len(written), 'rank')} are in {folder}; more: timing-logger report {folder}",
    ]


def _problems(log_dir: Path) -> list[str]:
    found = sorted(log_dir.glob(PROBLEMS))
    return [f"not timed in full, as {found[0]} says; the job was not touched by it"] if found else []
