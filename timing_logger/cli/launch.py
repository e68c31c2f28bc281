"""``timing-logger run -- COMMAND``: time a job whose code is unchanged, and say at its end who was slow."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from select import select
from types import FrameType
from typing import TYPE_CHECKING, Any

from timing_logger.autologging.settings import Settings, hang_after_s
from timing_logger.cli.commands import report
from timing_logger.cli.end_of_run import about, files_of_run, said_of_run, timing_files
from timing_logger.cli.queries import Answer
from timing_logger.cli.stderr import say, shown
from timing_logger.errors import ConfigurationError, LogPathError
from timing_logger.native_mpi import build
from timing_logger.process.launchers import local_rank
from timing_logger.process.monitor import Monitor, MonitorProcess
from timing_logger.process.shared_files import make_folder
from timing_logger.process.this_process import VARIABLE, host_name, id_of_new_run

if TYPE_CHECKING:
    from timing_logger.results.run_end import RunEnd

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
        make_folder(log_dir)
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
    return {
        build.VARIABLE: settings.log_dir,
        "LD_PRELOAD": _before("LD_PRELOAD", build.preloadable_library()),
    }


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


# -- hangs of the job, said while they last --------------------------------------------------------------

_STEP_S = 0.2
_HANG_LOOK_S = 5.0
_LOOKS_OF_ONE_HANG = 3  # in this time each process writes once how it stands


class HangNotice:
    """Looks now and then where the ranks of a job stand, from what each of them says of itself.

    Args:
        log_dir: the folder of the timing files.
        files: returns the timing files of the job.
        hang_after_s: seconds after which a call hangs.
        monitor: tells of hangs as long as it is at work; None if the job has none.
    """

    def __init__(
        self,
        log_dir: Path,
        files: Callable[[], Sequence[Path]],
        hang_after_s: float,
        monitor: JobMonitor | None = None,
    ) -> None:
        self._log_dir = log_dir
        self._files = files
        self._hang_after_s = hang_after_s
        self._monitor = monitor
        self._looks = 0
        self._told: set[object] = set()

    def wait(self, job: subprocess.Popen[bytes]) -> int:
        """Return the job's status when it has ended; until then, say when it hangs."""
        pause_s = self._hang_after_s
        while not has_ended(job, pause_s):
            pause_s = min(_HANG_LOOK_S, self._hang_after_s)
            self._look()
        return job.wait()

    def _look(self) -> None:
        """Say what hangs, if that was not said before. Nothing that goes wrong here concerns the job."""
        if self._monitor is not None and self._monitor.is_at_work:
            return
        self._looks += 1
        with suppress(Exception):
            end = self._end()
            if end is not None and not self._is_told(end):
                say(self._said(end))

    def _end(self) -> RunEnd | None:
        """Return how the ranks stand if they hang; None if they do not, or it is for another host to say."""
        from timing_logger.live.standstill import end_by_sidecars, stands_still, stated

        known = [entry for path in self._files() if (entry := stated(path)) is not None]
        if self._monitor is not None and not any(_is_first_here(entry) for entry in known):
            return None  # the monitor beside rank 0 tells of all ranks
        if not any(stands_still(entry["sidecar"]) for entry in known):
            return None
        end = end_by_sidecars(known)
        return end if end.hangs else None

    def _is_told(self, end: RunEnd) -> bool:
        """Tell whether some of what hangs was told before, here or by the monitor; now all of it is."""
        hanging = _what_hangs(end)
        is_told = bool(hanging & self._told) or self._is_of_monitor()
        self._told |= hanging
        return is_told

    def _is_of_monitor(self) -> bool:
        """Tell whether the first hang that is seen after the monitor's end is the one that it told."""
        if self._monitor is None or not self._monitor.hang_stands:
            return False
        self._monitor.hang_stands = False
        return self._looks <= _LOOKS_OF_ONE_HANG

    def _said(self, end: RunEnd) -> str:
        folder = shlex.quote(os.path.relpath(self._log_dir))
        return f"{' '.join(end.sentences[:2])} The job goes on; more: timing-logger hang {folder}"


def has_ended(job: subprocess.Popen[bytes], within_s: float) -> bool:
    """Wait for the end of a job, and return whether it came in time.

    A signal that comes just before a system call does not end that, and its handler runs after it: so each
    call is short.
    """
    try:
        descriptor = os.pidfd_open(job.pid)
    except (AttributeError, OSError):  # not Linux, or it is older than 5.3
        with suppress(subprocess.TimeoutExpired):
            job.wait(within_s)  # looks again and again
        return job.returncode is not None
    try:
        until_s = time.monotonic() + within_s
        while not select([descriptor], [], [], max(0.0, min(_STEP_S, until_s - time.monotonic())))[0]:
            if time.monotonic() >= until_s:
                return False
        return True
    finally:
        os.close(descriptor)


def _is_first_here(file: dict[str, Any]) -> bool:
    return bool(file["rank"] == 0 and file["sidecar"].get("host", host_name()) == host_name())


def _what_hangs(end: RunEnd) -> set[object]:
    groups = {(group.group, group.seq, group.operation) for group in end.groups}
    return {*groups, *((one.rank, one.operation, one.group, one.seq) for one in end.messages)} or {end.gone}


# -- ``--monitor``: have the job judged while it goes on, and say in a line what changes -----------------

_GRACE_S = 15.0
"""Seconds that the end of a job waits for what is still to be told; it is mostly one look."""

_BEFORE = {"begins": "", "changes": "now: ", "ends": "over: "}


class JobMonitor:
    """What the monitor of a job says is said in lines.

    Attributes:
        is_at_work: whether it, or that of another ``run`` on this host, may still tell what it sees.
        hang_stands: whether it told of a hang, and not of its end.
    """

    def __init__(self) -> None:
        self.is_at_work = True
        self.hang_stands = False

    def hear(self, content: Mapping[str, Any]) -> None:
        """Take an object that its process says."""
        if event := content.get("event"):
            self.hang_stands = event["event"] == "hang" and event["change"] != "ends"
            at = datetime.fromisoformat(event["at"]).astimezone()
            say(f"{at:%H:%M:%S} {_BEFORE[event['change']]}{event['text']}")
        if said := content.get("said"):
            say(f"monitor: {said}")
        if "ended" in content:
            self.is_at_work = False
        if content.get("ended"):
            say(f"the monitor ended ({content['ended']}); the job goes on without.")


@contextmanager
def monitored(arguments: Namespace, log_dir: Path) -> Iterator[JobMonitor | None]:
    """Have the job that runs in the block judged, if that was asked. Nothing that goes wrong concerns it.

    Yields:
        The monitor; None if none was asked.

    Raises:
        ConfigurationError: what was asked contradicts itself.
    """
    monitor = _monitor(arguments)
    if monitor is None:
        yield None
        return
    of_job = JobMonitor()
    if local_rank(os.environ) not in ("", "0"):  # another ``run`` of this host has one
        yield of_job
        return
    try:
        process = MonitorProcess(monitor.settings(str(log_dir), time.time()), of_job.hear)
    except OSError as error:
        say(f"the job cannot be judged while it goes on: {error}")
        of_job.is_at_work = False
        yield of_job
        return
    try:
        yield of_job
    finally:
        process.close(_GRACE_S)


def _monitor(arguments: Namespace) -> Monitor | None:
    """Return the options of the monitor; None if none is asked."""
    if not arguments.monitor:
        for name in ("webhook", "prometheus"):
            if getattr(arguments, name) is not None:
                raise ConfigurationError(f"--{name} is for what a monitor sees: give --monitor, too.")
        return None
    from timing_logger.live.destinations import Prometheus
    from timing_logger.live.webhook import Webhook

    return Monitor(
        every_s=arguments.monitor_every,
        webhooks=[Webhook(arguments.webhook)] if arguments.webhook else [],
        show_in=[Prometheus(arguments.prometheus)] if arguments.prometheus else [],
    )
