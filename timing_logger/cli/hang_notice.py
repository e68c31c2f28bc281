"""Wait for a job, and say in one line that it hangs, once for each hang, while it does."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from select import select
from typing import TYPE_CHECKING, Any

from timing_logger.cli.stderr import say
from timing_logger.run_info import host_name

if TYPE_CHECKING:
    from timing_logger.analysis import RunEnd
    from timing_logger.cli.monitored import JobMonitor

_STEP_S = 0.2
_LOOK_S = 5.0
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
            pause_s = min(_LOOK_S, self._hang_after_s)
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
        from timing_logger.engine.live.standstill import end_by_sidecars, stands_still, stated

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
