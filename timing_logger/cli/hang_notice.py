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
from timing_logger.record import NS_PER_S
from timing_logger.run_info import TimingFile, read_sidecar

if TYPE_CHECKING:
    from timing_logger.analysis import RunEnd

_LOOK_S = 5.0
_REFRESHED_S = 12.0  # a process that can writes its sidecar every 10 s


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
            stated = [entry for path in self._files() if (entry := _stated(path)) is not None]
            if not any(map(_stands_still, stated)):
                return
            end = _end_of(stated)
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


def _stated(path: Path) -> dict[str, Any] | None:
    """Return what is known of a file without its rows, as ``attrs["files"]`` of ``read_timings`` has it."""
    name, sidecar = TimingFile.parse(path.name), read_sidecar(path)
    if name is None or name.part > 1 or sidecar is None:
        return None
    return {"path": path, "rank": name.rank, "incarnation": name.incarnation, "sidecar": sidecar}


def _stands_still(entry: dict[str, Any]) -> bool:
    """Tell whether a process said that it hangs, or says nothing any more: of other jobs no more is read."""
    sidecar = entry["sidecar"]
    says_so = sidecar.get("open_calls") or sidecar.get("idle_stack")
    silent_ns: int = time.time_ns() - sidecar.get("updated_unix_ns", 0)
    return sidecar.get("closed") is False and bool(says_so or silent_ns > _REFRESHED_S * NS_PER_S)


def _end_of(stated: list[dict[str, Any]]) -> RunEnd:
    """Ask what ``timing-logger hang`` asks, of the sidecars and rings alone."""
    from timing_logger.analysis.hangs.diagnosis import run_end_of
    from timing_logger.analysis.hangs.last_rows import last_rows
    from timing_logger.engine.live.tails import no_rows
    from timing_logger.reading.living import as_it_stands

    files: list[Any] = [{**one, "sidecar": as_it_stands(one["sidecar"], one["path"])} for one in stated]
    return run_end_of([last_rows(no_rows())], files, time.time())


def _what_hangs(end: RunEnd) -> set[object]:
    groups = {(group.group, group.seq, group.operation) for group in end.groups}
    return {*groups, *((one.rank, one.operation, one.group, one.seq) for one in end.messages)} or {end.gone}
