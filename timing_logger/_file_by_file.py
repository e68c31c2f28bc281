"""Files taken one by one: what is asked for of each is kept, and the rest is never held together.

What ranks do by themselves is summed up file by file, on all cores or on a cluster. What compares ranks
needs the chosen rows of all of them at once, and is refused if they do not fit into memory.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from timing_logger._alignment import Alignment
from timing_logger._cores import usable_cores
from timing_logger._selection import select
from timing_logger._sources import Source, joined
from timing_logger._workers import Processes, Threads, Workers, cluster
from timing_logger.analysis import Summary
from timing_logger.analysis.summary import PartOfSummary, part_of_summary, whole_summary
from timing_logger.errors import TooLargeError
from timing_logger.reading import TimingFiles

if TYPE_CHECKING:
    import pandas as pd

TIMES_THE_TABLE = 3
"""An analysis holds at most so many times the memory of the table that it is given."""

MAX_THREADS = 4
"""More files than this at a time are read by processes."""

MEMORY_INFO = Path("/proc/meminfo")

File: TypeAlias = "tuple[Source, Alignment]"


class FilePart(NamedTuple):
    """One file's part of a summary, and its entry in ``attrs["files"]``."""

    part: PartOfSummary
    file: dict[str, Any]


def part_of_file(file: File, ranks: Collection[int] | None, iterations: slice | None) -> FilePart:
    """Read one file and sum it up."""
    rows, description = rows_of_file(file, ranks, iterations)
    return FilePart(part_of_summary(rows), description)


def overview_of_files(
    found: TimingFiles,
    *,
    ranks: Collection[int] | None = None,
    iterations: slice | None = None,
    scheduler: str | None = None,
) -> Summary:
    """What ``analysis.overview`` says of all rows, from the files one by one.

    Args:
        found: files of which at least ``COLUMNS_OF["overview"]`` are read.
        ranks, iterations: which rows count; None for all.
        scheduler: address of a Dask scheduler whose workers see the files under the same paths; by default
            this machine's cores work.

    Raises:
        ConfigurationError: Dask is not installed.
    """
    chosen = chosen_files(found, ranks)
    summed_up = partial(part_of_file, ranks=ranks, iterations=iterations)
    if scheduler:
        with cluster(scheduler) as workers:
            parts = workers.map(summed_up, chosen)
    else:
        parts = _on_cores(len(chosen)).map(summed_up, chosen)
    files = [part.file for part in parts if ranks is None or part.file["rank"] in ranks]
    return whole_summary([part.part for part in parts], files, found.left_out)


def rows_of_files(
    found: TimingFiles, *, ranks: Collection[int] | None = None, iterations: slice | None = None
) -> pd.DataFrame:
    """What ``select`` leaves of the table of all rows, without ever holding the others.

    Raises:
        TooLargeError: an analysis of the chosen rows would not fit into this machine's free memory.
    """
    chosen = chosen_files(found, ranks)
    room_bytes, held_bytes = free_memory_bytes(), 0
    tables, files = [], []
    for n_read, file in enumerate(chosen, 1):
        rows, description = rows_of_file(file, ranks, iterations)
        held_bytes += int(rows.memory_usage().sum())
        needed_bytes = TIMES_THE_TABLE * held_bytes * len(chosen) // n_read
        if needed_bytes > room_bytes:
            raise TooLargeError(
                f"These rows need about {needed_bytes / 1e9:.1f} GB of memory to be analysed together, and "
                f"{room_bytes / 1e9:.1f} GB are free. Choose fewer: --iterations A:B, or --ranks LIST."
            )
        tables.append({str(name): rows[name] for name in rows})
        del rows  # else the last one is held beside the table
        files.append(description)
    table = joined(tables, found.aligned[0][0].columns)
    kept = [file for file in files if ranks is None or file["rank"] in ranks]
    table.attrs.update(files=kept, left_out=found.left_out, engine=found.engine)
    return table


def chosen_files(found: TimingFiles, ranks: Collection[int] | None) -> list[File]:
    """The files of these ranks. If there are none, some file, for a table that is empty but typed."""
    chosen = [file for file in found.aligned if ranks is None or file[0].name.rank in ranks]
    return chosen or found.aligned[:1]


def rows_of_file(
    file: File, ranks: Collection[int] | None, iterations: slice | None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    source, clock = file
    description = source.description(clock)
    rows = joined([source.take_rows(clock)], source.columns)
    return select(rows, ranks=ranks, iterations=iterations), description


def free_memory_bytes() -> float:
    """What Linux could give without swapping; other systems do not tell, and then nothing is refused."""
    try:
        lines = MEMORY_INFO.read_text().splitlines()
    except OSError:
        return math.inf
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))


def _on_cores(n_files: int) -> Workers:
    """Threads, as long as Python's lock costs them less than processes cost to start."""
    n_workers = min(usable_cores(), n_files)
    return Threads(n_workers) if n_workers <= MAX_THREADS else Processes(n_workers)
