"""Read the chosen rows of timing files: of one file, or of all in one table, if that fits into memory."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from timing_logger.errors import ConfigurationError, TooLargeError
from timing_logger.process.progress import each
from timing_logger.reading.batches import File, batches_of, read_batch
from timing_logger.reading.content import SharedFacts
from timing_logger.reading.machine import free_memory_bytes
from timing_logger.reading.named_ranks import as_given, in_ranges, select
from timing_logger.reading.sources import joined
from timing_logger.reading.timings import TimingFiles

TIMES_THE_TABLE = 3
"""The memory that an analysis takes at most, as a multiple of that of the table that it is given."""


def require_room(needed_bytes: int, room_bytes: float | None = None) -> None:
    """Check that memory has room for the rows of an analysis.

    Args:
        needed_bytes: how much they need.
        room_bytes: how much is free; None for what is free now.

    Raises:
        TooLargeError: it has not.
    """
    room_bytes = free_memory_bytes() if room_bytes is None else room_bytes
    if needed_bytes > room_bytes:
        raise TooLargeError(
            f"These rows need about {needed_bytes / 1e9:.1f} GB of memory to be analysed together, and "
            f"{room_bytes / 1e9:.1f} GB are free. Choose fewer: --iterations A:B, or --ranks LIST."
        )


@dataclass(frozen=True)
class RowsOf:
    """A callable that reads the chosen rows of some files, in this process or another.

    Attributes:
        ranks, iterations: the chosen ranks and iterations; None for all.
        attrs: attributes that every table gets.
    """

    ranks: Collection[int] | None
    iterations: slice | None
    attrs: dict[str, Any]

    def __call__(self, files: Sequence[File]) -> pd.DataFrame:
        """Read the rows of ``files``, those that were chosen, one file after the other."""
        batch = read_batch(files)
        rows = pd.DataFrame(batch.columns, copy=False)
        rows.attrs.update(self.attrs, files=SharedFacts(batch.files))
        return select(rows, ranks=self.ranks, iterations=self.iterations)


@dataclass(frozen=True)
class Query:
    """Which rows are asked: those of some files, ranks and iterations.

    Attributes:
        timing_files: the files, with the columns that are to be read.
        ranks, iterations: the chosen ranks and iterations; None for all.
    """

    timing_files: TimingFiles
    ranks: Collection[int] | None = None
    iterations: slice | None = None

    @property
    def files(self) -> list[File]:
        """The files of the chosen ranks.

        Raises:
            ConfigurationError: one of the chosen ranks has no file.
        """
        if self.ranks is None:
            return self.timing_files.aligned
        present = {source.name.rank for source, _ in self.timing_files.aligned}
        if lacking := set(self.ranks) - present:
            raise ConfigurationError(
                f"ranks: no timing file is of {in_ranges(lacking)}; there are {in_ranges(present)}."
            )
        return [file for file in self.timing_files.aligned if file[0].name.rank in self.ranks]

    @property
    def batches(self) -> list[list[File]]:
        """The files of the chosen ranks, in batches that are read and analysed together."""
        return batches_of(self.files)

    @property
    def rows_of(self) -> RowsOf:
        """The callable that reads the chosen rows of a file."""
        attrs = {
            "left_out": self.timing_files.left_out,
            "about": self.timing_files.about,
            "engine": self.timing_files.engine,
        }
        return RowsOf(self.ranks, self.iterations, attrs)

    def in_one_table(self) -> pd.DataFrame:
        """Read all chosen rows into one table, without ever holding the others.

        Raises:
            ConfigurationError: one of the chosen ranks has no file.
            TooLargeError: an analysis of the rows would not fit into this machine's free memory.
        """
        batches, rows_of, tables, described = self.batches, self.rows_of, [], []
        n_files = sum(map(len, batches))
        room_bytes, held_bytes = free_memory_bytes(), 0
        for batch in each("reading", batches):
            rows = rows_of(batch)
            described += rows.attrs["files"]
            held_bytes += int(rows.memory_usage().sum())
            needed_bytes = TIMES_THE_TABLE * held_bytes * n_files // len(described)
            require_room(needed_bytes, room_bytes)
            tables.append({str(name): rows[name] for name in rows})
            del rows  # else the rows of the last batch are held beside the table
        table = joined(tables, batches[0][0][0].columns)
        table.attrs.update(rows_of.attrs, files=SharedFacts(described))
        return table

    def require_iterations(self) -> None:
        """Check that some row is of the chosen iterations.

        Mostly the first file has such a row, and no other is read.

        Raises:
            ConfigurationError: no row is of these iterations.
        """
        if self.iterations is None:
            return
        first, stop = self.iterations.start or 0, self.iterations.stop
        seen: list[int] = []
        for source, _ in self.files:
            numbers = source.parsed.frame["iteration"].dropna()
            if source.engine != "pandas":
                del source.parsed  # other processes read it, and it need not go through a pipe
            if ((numbers >= first) & (numbers < (math.inf if stop is None else stop))).any():
                return
            seen += [int(numbers.min()), int(numbers.max())] if len(numbers) else []
        there_are = f"there are {min(seen)} to {max(seen)}" if seen else "none states an iteration"
        raise ConfigurationError(f"iterations: no row is of {as_given(self.iterations)}; {there_are}.")
