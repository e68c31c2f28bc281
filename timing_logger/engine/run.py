"""Run analyses on timing files of any size: all rows in memory, file by file, or in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from timing_logger.analysis.analysis import Analysis, answers_from
from timing_logger.engine.blocks import Analyses, answers_in_blocks
from timing_logger.engine.cluster import Cluster
from timing_logger.engine.rows import TIMES_THE_TABLE, Query, RowsOf
from timing_logger.engine.workers import LocalWorkers, Processes, Threads, Workers
from timing_logger.errors import TooLargeError
from timing_logger.progress import begin, each, steps
from timing_logger.reading.batches import File
from timing_logger.reading.machine import free_memory_bytes, keep_freed_memory, usable_cores

MAX_THREADS = 4
"""The most files that are read at a time by threads; more are read by processes."""


class Result(NamedTuple):
    """The answers of analyses, and how they were computed.

    Attributes:
        answers: one for each analysis.
        engine: what read the rows: "pandas", "pyarrow" or "cluster".
        by_file: whether files were processed one by one.
        n_blocks: the number of blocks of collectives; 0 if there were none.
    """

    answers: tuple[Any, ...]
    engine: str
    by_file: bool = False
    n_blocks: int = 0

    @property
    def answer(self) -> Any:
        """The answer of the only analysis."""
        (found,) = self.answers
        return found


def run(query: Query, *analyses: Analysis[Any, Any], cluster: Cluster | None = None) -> Result:
    """Ask these analyses of the chosen rows, which are read once for all of them.

    All rows of small files are held in memory. Large files, or files on a cluster, are read one by one; for
    an analysis of collectives their rows are kept on disk or on the workers, in order, and processed block by
    block.

    Args:
        cluster: who works; None for this machine's cores.

    Raises:
        ConfigurationError: one of the chosen ranks has no file.
        TooLargeError: neither memory nor the disk has room for the rows of an analysis of collectives.
    """
    is_small = cluster is None and query.found.engine == "pandas"
    if is_small and (result := _in_memory(query, analyses)) is not None:
        return result
    engine = query.found.engine if cluster is None else "cluster"
    workers = cluster or _threads_or_processes(_most_workers(query))
    if all(one.unit == "process" for one in analyses):
        if isinstance(workers, Threads):
            keep_freed_memory()
        return Result(answers_by_file(analyses, query, workers), engine, by_file=True)
    try:
        answers, n_blocks = answers_in_blocks(analyses, query, workers)
    except TooLargeError:
        if cluster is None and (result := _in_memory(query, analyses)) is not None:
            return result
        raise
    return Result(answers, engine, n_blocks=n_blocks)


def _in_memory(query: Query, analyses: Analyses) -> Result | None:
    """None if the rows do not fit into memory together."""
    try:
        rows = query.in_one_table()
    except TooLargeError:
        return None
    return Result(tuple(one.of(rows) for one in each("answering", analyses)), query.found.engine)


def answers_by_file(analyses: Analyses, query: Query, workers: Workers) -> tuple[Any, ...]:
    """What analyses of processes say of all chosen rows, of which only some batches' are held together."""
    batches = query.batches
    begin("reading", len(batches))
    parts = workers.map(partial(_parts_of_batch, query.rows_of, analyses), batches)
    begin("answering", len(analyses))
    return tuple(answers_from(steps(analyses), parts))


def _parts_of_batch(rows_of: RowsOf, analyses: Analyses, batch: Sequence[File]) -> list[Any]:
    rows = rows_of(batch)
    return [one.map(rows) for one in analyses]


def _most_workers(query: Query) -> int:
    """As many as can hold a batch's rows each."""
    batches = query.batches
    largest_bytes = max(sum(source.n_bytes for source, _ in batch) for batch in batches)
    fit = free_memory_bytes() / (TIMES_THE_TABLE * max(largest_bytes, 1))
    return int(max(1, min(fit, usable_cores(), len(batches))))


def _threads_or_processes(most: int) -> LocalWorkers:
    """Return threads, if Python's lock costs them less than it costs to start processes; else processes."""
    return Threads(most) if most <= MAX_THREADS else Processes(most)
