"""Files taken one by one: what is asked for of each is kept, and the rest is never held together.

What ranks do by themselves is summed up file by file, on all cores or on a cluster. What compares ranks
needs the chosen rows of all of them at once, and is refused if they do not fit into memory.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from timing_logger._alignment import Alignment
from timing_logger._cores import usable_cores
from timing_logger._selection import as_given, in_ranges, select
from timing_logger._sources import Source, joined
from timing_logger._workers import Processes, Threads, Workers, cluster
from timing_logger.analysis import Summary
from timing_logger.analysis.summary import PartOfSummary, part_of_summary, whole_summary
from timing_logger.errors import ConfigurationError, TooLargeError
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
        ConfigurationError: Dask is not installed, or there is no file of one of the ranks.
    """
    chosen = chosen_files(found, ranks)
    summed_up = partial(part_of_file, ranks=ranks, iterations=iterations)
    if scheduler:
        with cluster(scheduler) as workers:
            parts = workers.map(summed_up, chosen)
    else:
        parts = _on_cores(len(chosen)).map(summed_up, chosen)
    return whole_summary([part.part for part in parts], [part.file for part in parts], found.left_out)


def rows_of_files(
    found: TimingFiles, *, ranks: Collection[int] | None = None, iterations: slice | None = None
) -> pd.DataFrame:
    """What ``select`` leaves of the table of all rows, without ever holding the others.

    Raises:
        ConfigurationError: there is no file of one of the ranks.
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
    table.attrs.update(files=files, left_out=found.left_out, engine=found.engine)
    return table


def chosen_files(found: TimingFiles, ranks: Collection[int] | None) -> list[File]:
    """The files of these ranks; of all, if it is None.

    Raises:
        ConfigurationError: there is no file of one of them.
    """
    if ranks is None:
        return found.aligned
    present = {source.name.rank for source, _ in found.aligned}
    if lacking := set(ranks) - present:
        raise ConfigurationError(
            f"ranks: no timing file is of {in_ranges(lacking)}; there are {in_ranges(present)}."
        )
    return [file for file in found.aligned if file[0].name.rank in ranks]


def require_iterations(files: Sequence[File], iterations: slice) -> None:
    """See that some row is of these iterations: in the first file, as a rule, and no other is read for that.

    Raises:
        ConfigurationError: none is.
    """
    first, stop = iterations.start or 0, math.inf if iterations.stop is None else iterations.stop
    seen: list[float] = []
    for source, _ in files:
        numbers = source.parsed.frame["iteration"].dropna()
        if source.engine != "pandas":
            del source.parsed  # other processes read it, and it need not go through a pipe
        if ((numbers >= first) & (numbers < stop)).any():
            return
        seen += [int(numbers.min()), int(numbers.max())] if len(numbers) else []
    there_are = f"there are {min(seen)} to {max(seen)}" if seen else "none states an iteration"
    raise ConfigurationError(f"iterations: no row is of {as_given(iterations)}; {there_are}.")


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
