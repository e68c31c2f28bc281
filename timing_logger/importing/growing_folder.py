"""A folder of timing files that are appended to, while what they are made of grows.

It is there from the first row on, and its sidecars say, as those of living processes, that the files are
being written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from timing_logger.errors import LogPathError
from timing_logger.importing.log_folder import Process, TimingFileOfRank, refuse
from timing_logger.process.shared_files import make_folder, remove_folder
from timing_logger.schema.record import RawRecord
from timing_logger.schema.sidecar import ImportedFrom, in_order_of_not_told

_REFRESHED_S = 5.0
"""Readers take a process for gone whose sidecar is 30 s old."""


class GrowingFolder:
    """A folder that is being written, one timing file for each rank.

    Args:
        output: the path of the folder; it may exist if it is empty.
        kind: what is imported.

    Raises:
        LogPathError: there is something at the path already, or it cannot be made.

    Attributes:
        n_rows: the number of rows in all files.
    """

    def __init__(self, output: str | os.PathLike[str], kind: str) -> None:
        self.path = Path(output).absolute()
        refuse(self.path)
        self._kind, self._run_id = kind, f"import {kind} {self.path.name}"
        self._files: dict[int, TimingFileOfRank] = {}
        self._refreshed_s = -_REFRESHED_S
        self.n_rows = 0
        self._made = [one for one in (self.path, *self.path.parents) if not one.exists()]
        try:
            make_folder(self.path)
        except OSError as error:
            raise LogPathError(
                f"output: the folder {str(self.path)!r} cannot be made: {error.strerror}."
            ) from error

    @property
    def ranks(self) -> list[int]:
        """The ranks that have a timing file, ascending."""
        return sorted(self._files)

    @property
    def notes(self) -> list[str]:
        """What became of rows that were written, if somebody changed the files: a sentence, or none."""
        lost = sum(file.n_lost for file in self._files.values())
        return [f"{lost:,} rows that had been written are in no file any more."] if lost else []

    def append(self, process: Process, rows: Sequence[RawRecord], source: Path) -> None:
        """Append rows to the timing file of a rank.

        Args:
            process: the process of the rank.
            rows: its next rows, with start and end in ns.
            source: what they were made from.
        """
        if not rows:
            return
        if process.rank not in self._files:
            self._files[process.rank] = TimingFileOfRank(self.path, process)
            self._refreshed_s = -_REFRESHED_S  # its sidecar is to be there soon
        self._files[process.rank].append(rows, source)
        self.n_rows += len(rows)

    def clear(self) -> None:
        """Remove all that was written."""
        for file in self._files.values():
            file.remove()
        self._files.clear()
        self.n_rows = 0

    def refresh(self, left_out: Mapping[str, int], not_told: Collection[str]) -> None:
        """Write the sidecars, if that is long ago: they say that the files are being written."""
        if time.monotonic() - self._refreshed_s >= _REFRESHED_S:
            self._describe(left_out, not_told, is_closed=False)
            self._refreshed_s = time.monotonic()

    def close(self, left_out: Mapping[str, int], not_told: Collection[str]) -> None:
        """Write the last sidecars, which say that no more comes, and close the files.

        A folder in which there is no row is removed.
        """
        self._describe(left_out, not_told, is_closed=True)
        for file in self._files.values():
            file.close()
        if not self._files:
            for folder in self._made:
                with suppress(OSError):  # somebody else put something there
                    remove_folder(folder)

    def _describe(self, left_out: Mapping[str, int], not_told: Collection[str], *, is_closed: bool) -> None:
        # All are as new: that a rank has no new rows does not tell that its process is gone.
        newest_ns = 0 if "instants" in not_told else self._newest_unix_ns()
        seen_ns = None if is_closed else max(time.time_ns(), newest_ns)
        for rank in self.ranks:
            file = self._files[rank]
            of_all = dict(left_out) if rank == self.ranks[0] else {}
            names = sorted({source.name for source in file.sources})
            imported = ImportedFrom(
                self._kind, names, of_all, in_order_of_not_told(not_told), goes_on=not is_closed
            )
            file.describe(imported, self._run_id, seen_ns)

    def _newest_unix_ns(self) -> int:
        """Return when the newest row ended, by clocks that may be ahead of that of this host."""
        return max((file.newest_unix_ns for file in self._files.values()), default=0)
