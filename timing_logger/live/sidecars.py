"""What processes say of themselves, read again only where it changed.

A monitor is on each host of a job, and its folder may have the files of ten thousand processes. It needs the
latest of those on its own host; of all others only where they run and since when, which stays as it is.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Set
from pathlib import Path
from typing import NamedTuple

from timing_logger.process.sidecar_files import read_sidecar
from timing_logger.schema.sidecar import SidecarDict
from timing_logger.schema.timing_files import sidecar_path

LASTING = ("host", "started_unix_ns", "run_id", "world")
"""What stays as it is as long as a process writes its file."""

_AGAIN_S = 600.0
"""After so long the sidecar of another host is looked at again, in case its file was replaced unseen."""


class _Read(NamedTuple):
    state: tuple[int, int, int] | None
    content: SidecarDict


class _Elsewhere(NamedTuple):
    file: int
    again_s: float
    content: SidecarDict


class Sidecars:
    """The sidecars of timing files. What it returns is shared, and must not be changed.

    Args:
        host: whose processes are followed; those of others are taken to go on as they began. "" for all.
    """

    def __init__(self, host: str = "") -> None:
        self._host = host
        self._read: dict[Path, _Read] = {}
        self._elsewhere: dict[Path, _Elsewhere] = {}

    def now(self, timing_file: Path) -> SidecarDict:
        """Return all that the process of a timing file says now; empty if it says nothing."""
        state = _state_of(timing_file)
        known = self._read.get(timing_file)
        if known is None or known.state != state:
            known = self._read[timing_file] = _Read(state, read_sidecar(timing_file) or {})
        return known.content

    def lasting(self, timing_file: Path, file: int) -> SidecarDict:
        """Return what stays as it is (``LASTING``); all that it says now, where the process is followed.

        Args:
            timing_file: the path of its file.
            file: a number that is another one for another file of this name, as that of an inode.
        """
        known = self._elsewhere.get(timing_file)
        if known is not None and known.file == file and time.monotonic() < known.again_s:
            return known.content
        content = self.now(timing_file)
        if self._host and content.get("host") not in (None, self._host):
            del self._read[timing_file]
            content = {name: content[name] for name in LASTING if name in content}
            again_s = time.monotonic() + _AGAIN_S * random.uniform(0.5, 1.0)  # not all in the same second
            self._elsewhere[timing_file] = _Elsewhere(file, again_s, content)
        return content

    def look_again(self) -> None:
        """Take no process any longer to go on as it began: the folder may be that of another run now."""
        self._elsewhere.clear()

    def keep_only(self, timing_files: Set[Path]) -> None:
        """Forget the sidecars of all other files."""
        self._read = {path: one for path, one in self._read.items() if path in timing_files}
        self._elsewhere = {path: one for path, one in self._elsewhere.items() if path in timing_files}


def _state_of(timing_file: Path) -> tuple[int, int, int] | None:
    """Return what is another one once the sidecar was replaced; None without one."""
    try:
        about = os.stat(sidecar_path(timing_file))
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size, about.st_ino
