"""Import step times while a trainer logs them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from timing_logger.importing.following import Sources, Take, follow
from timing_logger.importing.growing_folder import GrowingFolder
from timing_logger.importing.imported import Imported, LeftOut
from timing_logger.importing.log_folder import Process
from timing_logger.importing.source_files import AnyPath
from timing_logger.importing.step_columns import StepColumns, StepOfRank, StepsOfFile
from timing_logger.importing.step_records import StepRecords, Unusable
from timing_logger.importing.steps import ENDINGS, RowsOfRank, notes_on, origin_ns
from timing_logger.importing.until import Until
from timing_logger.schema.record import RawRecord


def follow_steps(
    paths: AnyPath | Sequence[AnyPath],
    output: AnyPath,
    columns: StepColumns,
    until: Until,
    tell: Callable[[str], None] = lambda said: None,
) -> Imported:
    """Make timing files from step times as :func:`import_steps` does, and go on while they are logged.

    The same rows come of it as of one import of the complete files. A file that is renamed, replaced or cut
    is followed no longer, and ``tell`` is told. Where no instant is logged, the steps of each rank follow
    each other from now on.

    Args:
        paths: files, folders or patterns, of which nothing has to be there yet.
        output: the folder to make; it may exist if it is empty.
        columns: which columns say what.
        until: when it ends.
        tell: is told what becomes of files, a sentence each.

    Raises:
        NotImportableError: the files that are there at first lack a column, or no record could be used.
        LogPathError: the output exists already and is not empty, or cannot be made.
        TooLargeError: there are more ranks than files may be open at a time.
        ConfigurationError: nothing ends it.
    """
    return follow(
        Sources(paths, ENDINGS, "steps"), output, lambda folder: _Steps(columns, folder), until, tell
    )


class _Steps:
    """Makes rows of the lines of all files.

    Args:
        columns: which columns say what.
        folder: where the rows go.
    """

    must_begin_anew = False

    def __init__(self, columns: StepColumns, folder: GrowingFolder) -> None:
        self.left_out = LeftOut()
        self._columns = columns
        self._folder = folder
        self._now_ns = time.time_ns()
        self._ranks: dict[int, tuple[Process, RowsOfRank]] = {}

    @property
    def not_told(self) -> list[str]:
        return self._columns.not_told

    @property
    def notes(self) -> list[str]:
        return notes_on(self._columns)

    def opened(self, path: Path) -> Take:
        return partial(self._take, path, StepRecords(path, self.left_out), StepsOfFile(path, self._columns))

    def begin_anew(self) -> None:
        raise AssertionError("no later step says anything of those before")

    def _take(self, path: Path, records: StepRecords, steps: StepsOfFile, lines: Iterable[str]) -> None:
        rows: dict[int, list[RawRecord]] = defaultdict(list)
        for line in lines:
            record = records.of(line)
            if record is None:
                continue
            try:
                rank, step = steps.of(record)
            except Unusable as reason:
                self.left_out.add(str(reason))
                continue
            rows[rank].extend(self._rows_of(rank, step))
        for rank, its in rows.items():
            self._folder.append(self._ranks[rank][0], its, path)

    def _rows_of(self, rank: int, step: StepOfRank) -> Iterator[RawRecord]:
        if rank not in self._ranks:
            wall_offset_ns = origin_ns(step.end_ns if step.end_ns >= 0 else self._now_ns)
            rows = RowsOfRank(self._columns, wall_offset_ns)
            self._ranks[rank] = Process(rank, wall_offset_ns=wall_offset_ns), rows
        return self._ranks[rank][1].of(step)
