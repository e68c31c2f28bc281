"""Write timing files with their sidecars, and a folder of them that appears whole, or not at all.

The lines are those of the sink that loggers write with, and the sidecar is that of a closed logger.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from timing_logger.errors import LogPathError
from timing_logger.process.interrupts import held_back, undone_by
from timing_logger.process.shared_files import make_folder, names_in, remove, remove_tree, rename, replace
from timing_logger.reading.atomic_files import made_folder
from timing_logger.schema.record import END, START, RawRecord
from timing_logger.schema.sidecar import ClockAnchor, Counters, ImportedFrom, RunInfo, in_order_of_not_told
from timing_logger.schema.timing_files import sidecar_path
from timing_logger.sinks.csv import CsvSink

_ROWS_AT_A_TIME = 2**14


class Process(NamedTuple):
    """The process of a rank, as far as the source tells.

    Attributes:
        rank: the rank.
        world_size: the number of ranks; None if it is not known.
        host: the name of its host; "" if it is not known.
        clock: names the clock of its instants: ranks with the same ``host`` and ``clock`` share one. "" if
            nothing tells whose clock it was.
        wall_offset_ns: Unix time minus the instants of its rows, in ns.
        pid: the number of the process; 0 if it is not known.
    """

    rank: int
    world_size: int | None = None
    host: str = ""
    clock: str = ""
    wall_offset_ns: int = 0
    pid: int = 0


class TimingFileOfRank:
    """The timing file of a rank, with its sidecar.

    Args:
        folder: where it is made.
        process: the process of the rank.

    Attributes:
        sources: the files that its rows were made from.
        n_rows: the number of its rows.
    """

    def __init__(self, folder: Path, process: Process) -> None:
        self.sources: dict[Path, None] = {}
        self.n_rows = 0
        self._process = process
        self._sink = CsvSink(folder, process.rank)
        self._begin_ns = self._end_ns = 0

    @property
    def newest_unix_ns(self) -> int:
        """When the last row to end ended, in Unix time in ns."""
        return self._end_ns + self._process.wall_offset_ns

    @property
    def n_lost(self) -> int:
        """The number of rows that were written, and that somebody has removed."""
        return self._sink.lost

    def append(self, rows: Sequence[RawRecord], *sources: Path) -> None:
        """Append rows, with start and end in ns, made from these files."""
        self.sources.update(dict.fromkeys(sources))
        for first in range(0, len(rows), _ROWS_AT_A_TIME):
            self._sink.write(rows[first : first + _ROWS_AT_A_TIME], self._process.wall_offset_ns)
        if rows:
            if not self.n_rows:  # later rows may begin earlier, and a process does not
                self._begin_ns = min(row[START] for row in rows)
            self._end_ns = max(self._end_ns, *(row[END] or row[START] for row in rows))
            self.n_rows += len(rows)

    def describe(self, imported: ImportedFrom, run_id: str, seen_unix_ns: int | None = None) -> None:
        """Write the sidecar, or replace it.

        Args:
            imported: what the rows were made from.
            run_id: names the run.
            seen_unix_ns: the moment, in Unix time in ns, if more rows may come; None if the file is complete.
        """
        info = self._info(imported, run_id, seen_unix_ns)
        replace(sidecar_path(self._sink.path), info.to_json().encode())

    def remove(self) -> None:
        """Remove the file and its sidecar."""
        self.close()
        for part in self._sink.parts:
            remove(self._sink.path.with_name(part.file))
        remove(sidecar_path(self._sink.path))

    def close(self) -> None:
        """Close the file."""
        self._sink.close()

    def _info(self, imported: ImportedFrom, run_id: str, seen_unix_ns: int | None) -> RunInfo:
        process, sink = self._process, self._sink
        begin_ns, lost = self._begin_ns, self._sink.lost
        return RunInfo(
            file=sink.path.name, rank=process.rank, incarnation=sink.incarnation,
            world_size=process.world_size, labels={}, options={},
            started_unix_ns=begin_ns + process.wall_offset_ns,
            updated_unix_ns=self.newest_unix_ns if seen_unix_ns is None else seen_unix_ns,
            closed=seen_unix_ns is None,
            clock_anchors=[ClockAnchor(begin_ns, begin_ns + process.wall_offset_ns, 0)],
            counters=Counters(self.n_rows, self.n_rows - lost, lost, 0), written_bytes=sink.written_bytes,
            parts=sink.parts, last_progress_counter_ns=self._end_ns, imported=imported,
            core=f"import {imported.kind}", run_id=run_id, world="", launch_id="", commit="",
            host=process.host, boot_id=process.clock, pid=process.pid, pid_namespace=0,
        )  # fmt: skip


class LogFolder:
    """A folder that is being written: one timing file for each rank."""

    def __init__(self, folder: Path, kind: str, run_id: str) -> None:
        self._folder, self._kind, self._run_id = folder, kind, run_id
        self.clear()

    def clear(self) -> None:
        """Remove all that was written."""
        for name in names_in(self._folder):
            remove(self._folder / name)
        self.ranks: list[int] = []
        self.n_rows = 0
        self._not_told: set[str] = set()

    @property
    def not_told(self) -> list[str]:
        """What the source of any rank does not tell, in the order of ``sidecar.NOT_TOLD``."""
        return in_order_of_not_told(self._not_told)

    def add(
        self,
        process: Process,
        rows: Sequence[RawRecord],
        files: Sequence[Path],
        left_out: Mapping[str, int],
        not_told: Collection[str],
    ) -> None:
        """Write the timing file of a rank, and its sidecar.

        Args:
            process: the process of the rank.
            rows: its rows, with start and end in ns; they are written by start.
            files: what they were made from.
            left_out: how many records of these could not be used, by reason.
            not_told: what they do not tell, by the names of ``sidecar.NOT_TOLD``.
        """
        file = TimingFileOfRank(self._folder, process)
        try:
            file.append(sorted(rows, key=itemgetter(START)), *files)
        finally:
            file.close()
        names = [source.name for source in files]
        imported = ImportedFrom(self._kind, names, dict(left_out), in_order_of_not_told(not_told))
        file.describe(imported, self._run_id)
        self._not_told.update(not_told)
        self.ranks.append(process.rank)
        self.n_rows += file.n_rows


@contextmanager
def new_log_folder(output: str | os.PathLike[str], kind: str) -> Iterator[LogFolder]:
    """Yield a folder to write to, which becomes ``output`` at the end of the block.

    If the block raises, nothing is left of it.

    Args:
        output: the path of the folder; it may exist if it is empty.
        kind: what is imported.

    Raises:
        LogPathError: there is something at the path already, or it cannot be made.
    """
    target = Path(output).absolute()
    refuse(target)
    with made_folder(target.parent):
        draft = target.with_name(f".{os.getpid()}.{target.name}")
        with undone_by(partial(remove_tree, draft)):
            try:
                remove_tree(draft)  # of a process with this number that was killed
                make_folder(draft, is_new=True)
                yield LogFolder(draft, kind, run_id=f"import {kind} {target.name}")
                with held_back():
                    rename(draft, target)  # a folder that is empty gives way
            except OSError as error:
                if isinstance(error, LogPathError) or error.filename not in (str(draft), str(target)):
                    raise
                raise LogPathError(
                    f"output: {str(target)!r} cannot be written: {error.strerror}. Name another folder."
                ) from error
            finally:
                remove_tree(draft)


def refuse(target: Path) -> None:
    """Refuse a path for a new folder at which there is something.

    Raises:
        LogPathError: there is.
    """
    if target.is_dir() and not target.is_symlink():
        if names_in(target):
            raise LogPathError(
                f"output: the folder {str(target)!r} is not empty. Name another one, or move it away."
            )
    elif os.path.lexists(target):
        raise LogPathError(f"output: {str(target)!r} exists and is no folder. Name another one.")
