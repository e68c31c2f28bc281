"""Import the step times that a trainer logged: JSON lines or CSV, with columns that the caller names.

Each step becomes rows of the rank's own work: one for each part, or one for the step.
"""

from __future__ import annotations

import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from timing_logger.errors import NotImportableError, TooLargeError
from timing_logger.importing.following import Sources, Until, follow
from timing_logger.importing.growing_files import GrowingFolder
from timing_logger.importing.imported import Imported, LeftOut
from timing_logger.importing.log_folder import LogFolder, Process, new_log_folder
from timing_logger.importing.source_files import AnyPath, files_at, lines_of
from timing_logger.importing.step_columns import StepColumns, StepOfRank, StepsOfFile
from timing_logger.schema.record import HOST_CLOCK, OK, RawRecord

MOST_STEPS = 10**7
"""Steps of all ranks together: a billion bytes of them at most are held at a time."""

ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".txt", ".log")
"""How the names of files end that count in a folder."""


@dataclass
class _Rank:
    """The steps of a rank, in the order of its log, each as numbers of equal width."""

    files: dict[Path, None] = field(default_factory=dict)
    integers: array[int] = field(default_factory=lambda: array("q"))
    works: array[float] = field(default_factory=lambda: array("d"))

    def add(self, step: StepOfRank) -> None:
        self.integers.extend((step.number, step.epoch, step.end_ns, step.lasts_ns, *step.parts_ns))
        self.works.append(step.work)

    def steps(self) -> Iterator[StepOfRank]:
        width = len(self.integers) // max(1, len(self.works))
        for i, work in enumerate(self.works):
            number, epoch, end_ns, lasts_ns, *parts_ns = self.integers[i * width : (i + 1) * width]
            yield StepOfRank(number, epoch, end_ns, work, lasts_ns, tuple(parts_ns))


def import_steps(paths: AnyPath | Sequence[AnyPath], output: AnyPath, columns: StepColumns) -> Imported:
    """Make timing files from step times that a trainer logged as JSON lines, or as CSV with a header.

    Where no instant is logged, the steps of a rank follow each other from the moment on at which its log was
    last written to.

    Args:
        paths: files, folders or patterns; gzip and Zstandard are read, too.
        output: the folder to make; it may exist if it is empty.
        columns: which columns say what.

    Raises:
        NotImportableError: there are no such files, they lack a column, or no record can be used.
        TooLargeError: the files have more than :data:`MOST_STEPS` steps.
        LogPathError: the output exists already and is not empty, or cannot be made.
        ConfigurationError: a file is compressed with Zstandard, and nothing installed reads that.
    """
    files = files_at(paths, ENDINGS)
    with new_log_folder(output, "steps") as folder:
        ranks, left_out = _read(files, columns)
        if not ranks:
            raise NotImportableError(
                f"paths: no step could be read from {len(files)} files{left_out.briefly}. Are the columns "
                "named as they are in the files?"
            )
        _write(folder, ranks, left_out, columns)
    return Imported(
        Path(output), folder.ranks, folder.n_rows, dict(left_out), columns.not_told, notes_on(columns)
    )


def notes_on(columns: StepColumns) -> list[str]:
    """Return what else there is to know of an import by these columns."""
    if columns.time:
        return []
    return ["No instants are logged, so the steps of each rank follow each other without gaps."]


# -- reading -----------------------------------------------------------------------------------------


def _read(files: Sequence[Path], columns: StepColumns) -> tuple[dict[int, _Rank], LeftOut]:
    ranks: dict[int, _Rank] = {}
    left_out = LeftOut()
    n_steps = 0
    for path in files:
        for rank, step in StepsOfFile(path, columns, left_out).in_lines(lines_of(path, left_out)):
            n_steps += 1
            if n_steps > MOST_STEPS:
                raise TooLargeError(f"paths: there are more than {MOST_STEPS} steps. Import fewer at a time.")
            of_rank = ranks.setdefault(rank, _Rank())
            of_rank.files[path] = None
            of_rank.add(step)
    return ranks, left_out


# -- writing -----------------------------------------------------------------------------------------


def _write(folder: LogFolder, ranks: dict[int, _Rank], left_out: LeftOut, columns: StepColumns) -> None:
    first_ns = min(step.end_ns for rank in ranks.values() for step in rank.steps())
    wall_offset_ns = origin_ns(
        first_ns
        if columns.time
        else min(file.stat().st_mtime_ns for rank in ranks.values() for file in rank.files)
    )
    for number in sorted(ranks):
        rank, made = ranks[number], RowsOfRank(columns, wall_offset_ns)
        rows = [row for step in rank.steps() for row in made.of(step)]
        of_all = left_out if number == min(ranks) else {}
        process = Process(number, wall_offset_ns=wall_offset_ns)
        folder.add(process, rows, list(rank.files), of_all, columns.not_told)


# -- from steps to rows: one for each part, or one for the step, one after the other ---------------------


STEP = "STEP"
"""The operation of a step of which no parts are known."""

_NS_PER_S = 10**9
_BEFORE_NS = 10**6 * _NS_PER_S
_THREAD = "MainThread"


def origin_ns(first_ns: int) -> int:
    """Return an instant long before the first, in whole seconds, from which all others are counted.

    Readers take instants for float64: of numbers as small as these no nanosecond is lost.
    """
    return max(0, first_ns // _NS_PER_S * _NS_PER_S - _BEFORE_NS)


class RowsOfRank:
    """Makes the rows of the steps of a rank, in the order of its log.

    Args:
        columns: which columns of the log say what.
        wall_offset_ns: Unix time minus the instants of rows, in ns.
    """

    def __init__(self, columns: StepColumns, wall_offset_ns: int) -> None:
        self._columns, self._wall_offset_ns = columns, wall_offset_ns
        self._at_ns = _BEFORE_NS

    def of(self, step: StepOfRank) -> Iterator[RawRecord]:
        """Yield the rows of the next step, which begins where the last ended if no instant is logged."""
        if step.end_ns >= 0:
            began_ns = step.end_ns - (0 if self._columns.time_is_start else step.lasts_ns)
            self._at_ns = max(0, began_ns - self._wall_offset_ns)
        yield from _rows_of_step(step, self._columns, self._at_ns)
        self._at_ns += step.lasts_ns


def _rows_of_step(step: StepOfRank, columns: StepColumns, at_ns: int) -> Iterator[RawRecord]:
    parts = list(zip(columns.parts, step.parts_ns, strict=True)) or [(STEP, step.lasts_ns)]
    if columns.rest:
        parts.append((columns.rest, step.lasts_ns - sum(step.parts_ns)))
    for i, (name, lasts_ns) in enumerate(parts):
        work = step.work if i == 0 and step.work >= 0 else None
        yield _row(name, step, at_ns, lasts_ns, work)
        at_ns += lasts_ns


def _row(name: str, step: StepOfRank, start_ns: int, lasts_ns: int, work: float | None) -> RawRecord:
    epoch = step.epoch if step.epoch >= 0 else None
    return (
        step.number, epoch, "", name, "", None, start_ns, start_ns + lasts_ns, HOST_CLOCK, "", None, None,
        None, _THREAD, OK, "", None, work,
    )  # fmt: skip


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
        self.notes = notes_on(columns)
        self._columns, self._folder = columns, folder
        self._now_ns = time.time_ns()
        self._files: dict[Path, StepsOfFile] = {}
        self._ranks: dict[int, tuple[Process, RowsOfRank]] = {}
        folder.not_told = columns.not_told

    def begin_anew(self) -> None:
        raise AssertionError("no later step says anything of those before")

    def take(self, path: Path, lines: Iterable[str]) -> None:
        if path not in self._files:
            self._files[path] = StepsOfFile(path, self._columns, self._folder.left_out)
        rows: dict[int, list[RawRecord]] = defaultdict(list)
        for rank, step in self._files[path].in_lines(lines):
            rows[rank].extend(self._rows_of(rank, step))
        for rank, its in rows.items():
            self._folder.append(self._ranks[rank][0], its, path)

    def _rows_of(self, rank: int, step: StepOfRank) -> Iterator[RawRecord]:
        if rank not in self._ranks:
            wall_offset_ns = origin_ns(step.end_ns if step.end_ns >= 0 else self._now_ns)
            rows = RowsOfRank(self._columns, wall_offset_ns)
            self._ranks[rank] = Process(rank, wall_offset_ns=wall_offset_ns), rows
        return self._ranks[rank][1].of(step)
