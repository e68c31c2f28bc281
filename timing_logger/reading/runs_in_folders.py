"""Find the runs in the folders that a command names: one in each, several in one, or a folder of folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from timing_logger.errors import NoTimingFilesError
from timing_logger.process.shared_files import entries_in, names_in
from timing_logger.reading.parquet import is_parquet_name
from timing_logger.reading.runs_of_job import numbers_of_runs
from timing_logger.reading.timings import find_sources
from timing_logger.schema.timing_files import TimingFile


class FoundRun(NamedTuple):
    """A run in a folder.

    Attributes:
        folder: the folder, or a file of the run.
        number: its number there, see ``runs_of_job.of_run``.
        of: how many runs there are.
    """

    folder: Path
    number: int
    of: int

    def __str__(self) -> str:
        return str(self.folder) if self.of == 1 else f"{self.folder}, run {self.number}"


def runs_in(path: Path) -> list[FoundRun]:
    """Return the runs in a folder, the oldest first; in one without timing files those of the folders in it.

    Raises:
        NoTimingFilesError: there is none.
        NotATimingFileError, ConfigurationError: as of ``read_timings``.
    """
    folders = [path] if not path.is_dir() or _has_timings(path) else _folders_with_timings(path)
    if not folders:
        raise NoTimingFilesError(
            f"paths: no timing-rank*.csv in {str(path)!r}, nor in the folders in it. Name the folder of a "
            "run, or one that holds such folders."
        )
    return [run for folder in folders for run in _runs_of(folder)]


def _runs_of(folder: Path) -> Iterator[FoundRun]:
    numbers = numbers_of_runs(find_sources([folder]))
    return (FoundRun(folder, number, len(numbers)) for number in numbers)


def _folders_with_timings(path: Path) -> list[Path]:
    found = [Path(entry.path) for entry in entries_in(path) if entry.is_dir()]
    return sorted(folder for folder in found if _has_timings(folder))


def _has_timings(folder: Path) -> bool:
    return any(TimingFile.parse(name) or is_parquet_name(name) for name in _names(folder))


def _names(folder: Path) -> Iterable[str]:
    try:
        return names_in(folder)
    except PermissionError:
        return ()
