"""Find the files of a run in progress: at each look anew, as ranks begin late, restart and are replaced."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from timing_logger.errors import NoTimingFilesError
from timing_logger.live.sidecars import Sidecars
from timing_logger.process.shared_files import entries_in
from timing_logger.schema.timing_files import TimingFile

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
        return _first(self.parts)


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
            for path in [_first(parts)]
        ]

    def _processes_here(self, found: Sequence[FoundFile]) -> set[tuple[Path, int | None]]:
        return {
            (one.first, one.sidecar.get("started_unix_ns"))
            for one in found
            if one.sidecar.get("host") == self._host
        }


def _first(parts: Parts) -> Path:
    return parts[min(parts)]


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
