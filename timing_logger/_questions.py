"""A question to files: of all rows in memory, file by file, or in blocks of collectives; and how."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from timing_logger._blocks import BlockQuestion, answered_in_blocks
from timing_logger._cores import usable_cores
from timing_logger._file_by_file import (
    TIMES_THE_TABLE,
    File,
    chosen_files,
    free_memory_bytes,
    rows_of_file,
    rows_of_files,
)
from timing_logger._workers import Cluster, Processes, Workers
from timing_logger.analysis._block_parts import BANDWIDTH as BANDWIDTH_OF_BLOCKS
from timing_logger.analysis._block_parts import WAITS as WAITS_OF_BLOCKS
from timing_logger.analysis._block_parts import compression_in_blocks
from timing_logger.analysis._compressed_rows import WORK
from timing_logger.analysis._in_parts import (
    EFFICIENCIES,
    MESSAGES,
    NOTHING,
    OVERLAP,
    ROWS,
    STRAGGLERS,
    InParts,
    both,
    hang_asked_at,
    totals,
)
from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.operations import COMMUNICATION, COPIES, base_operation
from timing_logger.errors import TooLargeError
from timing_logger.reading import TimingFiles

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "BANDWIDTH",
    "OVERLAP_AND_EFFICIENCIES",
    "STRAGGLERS",
    "WAITS",
    "Asked",
    "BlockQuestion",
    "Told",
    "compression",
    "hang_asked_at",
    "moves_bytes_or_is_work",
    "totals",
]

T = TypeVar("T")

_BYTES_PER_ROW = 160
"""Of a block's table, with what says of it what it alone does not tell."""

_MOST_ROWS = 2**19


class Told(NamedTuple):
    """An answer, and how it was come by.

    Attributes:
        answer: what the analysis says.
        engine: what read the rows: "pandas", "duckdb" or "dask".
        by_file: whether files were taken one by one.
        n_blocks: of how many blocks of collectives it was made; 0 if of none.
    """

    answer: Any
    engine: str
    by_file: bool = False
    n_blocks: int = 0


@dataclass(frozen=True)
class Asked:
    """What is asked of: files, and which of their rows.

    Attributes:
        found: files of which the columns that the analysis looks at are read.
        ranks, iterations: which rows count; None for all.
        workers: a cluster; None for this machine.
    """

    found: TimingFiles
    ranks: Collection[int] | None = None
    iterations: slice | None = None
    workers: Cluster | None = None

    @property
    def engine(self) -> str:
        return "dask" if self.workers is not None else self.found.engine

    def rows(self) -> pd.DataFrame:
        """All of them, in this machine's memory; raises ``TooLargeError``."""
        if self.workers is None:
            return rows_of_files(self.found, ranks=self.ranks, iterations=self.iterations)
        rows: pd.DataFrame = self.of_processes(ROWS).answer
        return rows

    def of_processes(self, analysis: InParts[Any, T]) -> Told:
        """Of what ranks do by themselves: of large files one by one, on all cores or on the cluster."""
        if self.engine == "pandas" and (rows := _if_they_fit(self.rows)) is not None:
            return Told(analysis.whole([analysis.part(rows)]), "pandas")
        part = partial(_part_of_file, analysis.part, self.ranks, self.iterations)
        parts = self._workers().map(part, chosen_files(self.found, self.ranks))
        return Told(analysis.whole(parts), self.engine, by_file=True)

    def of_collectives(self, question: BlockQuestion) -> Told:
        """Of what ranks do together: of large files in blocks, on all cores or on the cluster.

        Of all rows in memory where no disk has room for the blocks.
        """
        if self.engine == "pandas" and (told := self._of_all_rows(question)) is not None:
            return told
        try:
            return self._in_blocks(question)
        except TooLargeError:
            told = self._of_all_rows(question) if self.workers is None else None
            if told is None:
                raise
            return told

    def _of_all_rows(self, question: BlockQuestion) -> Told | None:
        """None if they do not fit into memory."""
        rows = _if_they_fit(self.rows)
        if rows is None:
            return None
        analyses = question.by_block, question.by_file
        return Told(tuple(one.whole([one.part(rows)]) for one in analyses), self.engine)

    def _in_blocks(self, question: BlockQuestion) -> Told:
        workers = self._workers()
        found = answered_in_blocks(
            question, self.found, ranks=self.ranks, iterations=self.iterations, workers=workers,
            rows_per_block=_rows_per_block(workers),
        )  # fmt: skip
        return Told((found.of_collectives, found.of_files), self.engine, n_blocks=found.n_blocks)

    def _workers(self) -> Workers:
        """As many as can hold a file's rows each."""
        if self.workers is not None:
            return self.workers
        largest_bytes = max(source.n_bytes for source, _ in self.found.aligned)
        fit = free_memory_bytes() / (TIMES_THE_TABLE * max(largest_bytes, 1))
        return Processes(int(max(1, min(fit, usable_cores()))))


def _if_they_fit(rows: Callable[[], T]) -> T | None:
    try:
        return rows()
    except TooLargeError:
        return None


def _rows_per_block(workers: Workers) -> int:
    if not isinstance(workers, Processes):
        return _MOST_ROWS
    room_bytes = free_memory_bytes() / (2 * workers.most * TIMES_THE_TABLE)  # half is for the parts
    return int(max(1, min(_MOST_ROWS, room_bytes / _BYTES_PER_ROW)))


def _part_of_file(
    part: Callable[[pd.DataFrame], T],
    ranks: Collection[int] | None,
    iterations: slice | None,
    file: File,
) -> T:
    rows, description = rows_of_file(file, ranks, iterations)
    rows.attrs["files"] = [description]
    return part(rows)


# -- questions -------------------------------------------------------------------------------------------


def _moves_bytes(operation: str) -> bool:
    return base_operation(operation) in COMMUNICATION | COPIES


def _none(operation: str) -> bool:
    return False


OVERLAP_AND_EFFICIENCIES = both(OVERLAP, EFFICIENCIES)
"""``overlap`` and ``efficiencies``."""

BANDWIDTH = BlockQuestion(BANDWIDTH_OF_BLOCKS, COLUMNS_OF["bandwidth"], _moves_bytes, NOTHING)
"""``bandwidth``."""


def moves_bytes_or_is_work(operation: str) -> bool:
    return _moves_bytes(operation) or base_operation(operation) in WORK


def compression(dense: pd.DataFrame | None = None) -> BlockQuestion:
    """``compression``, with the speeds that ``bandwidth`` found in another run."""
    return BlockQuestion(
        compression_in_blocks(dense), COLUMNS_OF["compression"], moves_bytes_or_is_work, NOTHING
    )


WAITS = BlockQuestion(WAITS_OF_BLOCKS, COLUMNS_OF["waits"], _none, MESSAGES)
"""Who waited for whom in collectives, and in messages."""
