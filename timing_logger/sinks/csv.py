"""The timing file: one per rank and process incarnation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from timing_logger.record import HEADER, RawRecord, format_records
from timing_logger.run_info import TimingFile, sidecar_path
from timing_logger.sinks._append_only_file import AppendOnlyFile, is_taken


class CsvSink:
    """Appends lines to a file that it created.

    Attributes:
        path: the file.
        name: rank and incarnation, as the file name states them.
    """

    def __init__(self, log_dir: str | os.PathLike[str], rank: int) -> None:
        """Create the first free file of ``rank`` in ``log_dir``, and the folder if need be.

        Raises:
            LogPathError: the folder or a file name in it is taken by something else than a folder
                or a regular file, or cannot be written.
        """
        self._file = AppendOnlyFile(
            log_dir,
            lambda incarnation: TimingFile(rank, incarnation).name,
            argument="log_dir",
            taken=_is_taken,
            head=HEADER.encode(),
        )
        self.path = self._file.path
        self.name = TimingFile(rank, self._file.incarnation)

    @property
    def written_bytes(self) -> int:
        """Size of the file, header included."""
        return self._file.written_bytes

    def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        self._file.append(format_records(batch, wall_offset_ns).encode())

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()


def _is_taken(path: Path) -> bool:
    """A timing file, or the sidecar of one that is gone."""
    return is_taken(path) or is_taken(sidecar_path(path))
