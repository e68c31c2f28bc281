"""Wait for a job, and say in one line that it hangs, once for each hang, while it does."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from select import select
from typing import TYPE_CHECKING

from timing_logger.cli.stderr import say

if TYPE_CHECKING:
    from timing_logger.analysis import RunEnd

_LOOK_S = 5.0


class HangNotice:
    """Looks now and then where the ranks of a job stand, from what each of them says of itself.

    Args:
        log_dir: the folder of the timing files.
        files: returns the timing files of the job.
        hang_after_s: seconds after which a call hangs.
    """

    def __init__(self, log_dir: Path, files: Callable[[], Sequence[Path]], hang_after_s: float) -> None:
        self._log_dir = log_dir
        self._files = files
        self._hang_after_s = hang_after_s
        self._told: set[object] = set()

    def wait(self, job: subprocess.Popen[bytes]) -> int:
        """Return the job's status when it has ended; until then, say when it hangs."""
        pause_s = self._hang_after_s
        while not _has_ended(job, pause_s):
            pause_s = min(_LOOK_S, self._hang_after_s)
            self._look()
        return job.wait()

    def _look(self) -> None:
        """Say what hangs, if that was not said before. Nothing that goes wrong here concerns the job."""
        try:
            from timing_logger.engine.live.standstill import end_by_sidecars, stands_still, stated

            known = [entry for path in self._files() if (entry := stated(path)) is not None]
            if not any(stands_still(entry["sidecar"]) for entry in known):
                return
            end = end_by_sidecars(known)
            hanging = _what_hangs(end)
            if end.hangs and not hanging & self._told:
                say(self._said(end))
            self._told |= hanging
        except Exception:
            return

    def _said(self, end: RunEnd) -> str:
        folder = shlex.quote(os.path.relpath(self._log_dir))
        return f"{' '.join(end.sentences[:2])} The job goes on; more: timing-logger hang {folder}"


def _has_ended(job: subprocess.Popen[bytes], within_s: float) -> bool:
    """Wait for the end of a job, and return whether it came in time."""
    try:
        descriptor = os.pidfd_open(job.pid)
    except (AttributeError, OSError):  # not Linux, or it is older than 5.3
        with suppress(subprocess.TimeoutExpired):
            job.wait(within_s)  # looks again and again
        return job.returncode is not None
    try:
        return bool(select([descriptor], [], [], within_s)[0])
    finally:
        os.close(descriptor)


def _what_hangs(end: RunEnd) -> set[object]:
    groups = {(group.group, group.seq, group.operation) for group in end.groups}
    return {*groups, *((one.rank, one.operation, one.group, one.seq) for one in end.messages)} or {end.gone}
