"""The sink of the timing file: one per rank and process incarnation, in one part or several."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from timing_logger.process.sidecar_files import is_anothers
from timing_logger.schema.defaults import FILE_MODE
from timing_logger.schema.record import HEADER, RawRecord, format_records
from timing_logger.schema.timing_files import KINDS, TimingFile, sidecar_path
from timing_logger.sinks._file_in_parts import FileInParts, is_taken


class CsvSink(FileInParts):
    """Appends lines to a file that it created, and continues in the next part where necessary.

    Attributes:
        path: the first part.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        rank: int,
        *,
        started_unix_ns: int | None = None,
        mode: int = FILE_MODE,
        max_bytes: float | None = None,
    ) -> None:
        """Create the first free file of ``rank`` in ``log_dir``, and the folder if it is missing.

        Args:
            started_unix_ns: the start time that the sidecar states. This and the process id tell whether a
                sidecar is this process's own; by default none is.
            mode: permissions of the files, from which the process's umask is subtracted.
            max_bytes: the size at which a file is followed by the next part; None for no limit.

        Raises:
            LogPathError: the folder or a file name in it is taken by something other than a folder or a
                regular file, or cannot be written.
        """
        self._rank = rank
        super().__init__(
            log_dir,
            lambda incarnation, part: TimingFile(rank, incarnation, part).name,
            argument="log_dir",
            taken=_is_taken,
            claimed=lambda first: is_anothers(first, started_unix_ns),
            head=HEADER.encode(),
            mode=mode,
            max_bytes=max_bytes,
        )

    @property
    def name(self) -> TimingFile:
        """The rank and incarnation in the file names.

        The incarnation changes if another process takes the names.
        """
        return TimingFile(self._rank, self.incarnation)

    def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        """Append a batch as lines of CSV."""
        in_place = getattr(batch, "csv_lines", None)  # a batch of the native core has its lines
        lines = in_place(wall_offset_ns) if in_place else format_records(batch, wall_offset_ns).encode()
        self.append(lines, len(batch))


def _is_taken(path: Path) -> bool:
    """Tell whether a timing file is at ``path``, or what belongs to one that is gone."""
    return any(map(is_taken, (path, sidecar_path(path), *(kind.path(path) for kind in KINDS))))
