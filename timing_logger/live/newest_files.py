"""Find the files of a run in progress: at each look anew, as ranks begin late, restart and are replaced."""

from __future__ import annotations

import os
import random
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

from timing_logger.errors import NoTimingFilesError
from timing_logger.process.shared_files import entries_in
from timing_logger.process.sidecar_files import read_sidecar
from timing_logger.schema.sidecar import SidecarDict
from timing_logger.schema.timing_files import TimingFile, sidecar_path

LASTING = ("host", "started_unix_ns", "run_id", "world")
"""What stays as it is as long as a process writes its file."""

_AGAIN_S = 600.0
"""After so long the sidecar of another host is looked at again, in case its file was replaced unseen."""


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
        self._read: dict[Path, tuple[tuple[int, int, int] | None, SidecarDict]] = {}
        self._elsewhere: dict[Path, _Elsewhere] = {}

    def now(self, timing_file: Path) -> SidecarDict:
        """Return all that the process of a timing file says now; empty if it says nothing."""
        state = _state_of(timing_file)
        known = self._read.get(timing_file)
        if known is None or known[0] != state:
            known = self._read[timing_file] = state, read_sidecar(timing_file) or {}
        return known[1]

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


_FILE_NAME = re.compile(r"timing-rank.*\.csv\Z")

Parts = dict[int, Path]
"""The parts of a timing file, by their numbers."""


class FoundFile(NamedTuple):
    """A timing file in a folder.

    Attributes:
        name, parts: of the file.
        sidecar: what its process says of itself; only what stays as it is, if the process is not followed.
    """

    name: TimingFile
    parts: Parts
    sidecar: dict[str, Any]

    @property
    def first(self) -> Path:
        """The path of its first part."""
        return self.parts[min(self.parts)]


class NewestFiles:
    """The newest timing file of each rank in a folder.

    Args:
        folder: the folder that holds ``timing-rank*.csv``, now or later.
        host: whose processes are followed, as of ``Sidecars``.

    Attributes:
        sidecars: what the processes say of themselves.
    """

    def __init__(self, folder: Path, host: str = "") -> None:
        self.sidecars = Sidecars(host)
        self._folder, self._host = folder, host
        self._inodes: dict[str, int] = {}
        self._parts: list[tuple[TimingFile, Parts]] = []
        self._here: set[tuple[Path, int | None]] = set()

    def found(self) -> list[FoundFile]:
        """Return the newest file of each rank of the run that began last, in the order of ranks.

        Raises:
            NoTimingFilesError: there is no timing file (yet).
            OSError: the folder cannot be read.
        """
        self._list()
        if not self._here:  # which would tell of another run
            self.sidecars.look_again()
        found = self._with_sidecars()
        here = self._processes_here(found)
        if self._here - here:
            self.sidecars.look_again()
            found = self._with_sidecars()
        self._here = here
        return list({one.name.rank: one for one in _of_latest_run(found)}.values())

    def _list(self) -> None:
        """List the folder. Its names are parsed again only if they are others: there may be many."""
        if not self._folder.is_dir():
            raise NoTimingFilesError(f"folder: {str(self._folder)!r} is not a folder with timing files.")
        entries = entries_in(self._folder)
        inodes = {entry.name: entry.inode() for entry in entries if _FILE_NAME.match(entry.name)}
        if inodes.keys() != self._inodes.keys():
            self._parts = sorted(_parts_of(self._folder, inodes).items())
            self.sidecars.keep_only({path for _, parts in self._parts for path in parts.values()})
        self._inodes = inodes
        if not self._parts:
            raise NoTimingFilesError(f"folder: no timing file in {str(self._folder)!r} (yet).")

    def _with_sidecars(self) -> list[FoundFile]:
        return [
            FoundFile(name, parts, self.sidecars.lasting(path, self._inodes[path.name]))
            for name, parts in self._parts
            for path in [parts[min(parts)]]
        ]

    def _processes_here(self, found: Sequence[FoundFile]) -> set[tuple[Path, int | None]]:
        return {
            (one.first, one.sidecar.get("started_unix_ns"))
            for one in found
            if one.sidecar.get("host") == self._host
        }


def _parts_of(folder: Path, file_names: Iterable[str]) -> dict[TimingFile, Parts]:
    parts: dict[TimingFile, Parts] = defaultdict(dict)
    for text in file_names:
        if name := TimingFile.parse(text):
            parts[name.first][name.part] = folder / text
    return parts


def _of_latest_run(found: Sequence[FoundFile]) -> list[FoundFile]:
    """Return the files of the run that began last, and of its world that was started first."""
    latest = max((one.sidecar for one in found), key=lambda sidecar: sidecar.get("started_unix_ns") or 0)
    runs = {one.sidecar.get("run_id") or "" for one in found} - {""}
    of_run = [one for one in found if len(runs) < 2 or one.sidecar.get("run_id") == latest.get("run_id")]
    first = min(one.sidecar.get("world") or "" for one in of_run)
    return [one for one in of_run if (one.sidecar.get("world") or "") == first]
