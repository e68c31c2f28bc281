"""Analyse the collectives of a run larger than memory in blocks: all ranks' rows of a range of collectives.

Each file is read once, small ones in batches. Their rows are put in the order of collectives and kept: in
temporary files, or on the workers of a cluster. Then each block takes what it needs of every batch.
"""

from __future__ import annotations

import errno
import pickle
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from timing_logger.analysis.analysis import Analysis, answers_from
from timing_logger.analysis.columns import MEANING_OF_EPOCHS, RANKS_OF_GROUP, RUN_OF_RANK
from timing_logger.analysis.epochs import Meaning
from timing_logger.analysis.part_tables import Columns
from timing_logger.analysis.tables import dense_codes
from timing_logger.engine.block_order import (
    InOrder,
    Kept,
    Process,
    Range,
    blocks_of,
    in_order,
    places,
    runs,
)
from timing_logger.engine.cluster import Cluster
from timing_logger.engine.rows import TIMES_THE_TABLE, Query, RowsOf
from timing_logger.engine.rows_on_disk import RowsOnDisk
from timing_logger.engine.workers import LocalWorkers
from timing_logger.errors import TooLargeError
from timing_logger.interrupts import temporary_folder
from timing_logger.progress import begin
from timing_logger.reading.batches import File
from timing_logger.reading.machine import free_memory_bytes, give_back_freed_memory
from timing_logger.reading.sources import compact, joined

_SAMPLES_PER_BLOCK = 16

_BYTES_PER_ROW = 160
"""The memory that a row of a block's table takes, with the columns that describe the whole run."""

_MOST_ROWS = 2**19

Analyses: TypeAlias = "Sequence[Analysis[Any, Any]]"


def answers_in_blocks(
    analyses: Analyses, query: Query, workers: Cluster | LocalWorkers, rows_per_block: int | None = None
) -> tuple[tuple[Any, ...], int]:
    """Run analyses on all chosen rows, with only the rows of a block in memory together.

    Args:
        query: the files, of which the columns that the analyses look at are read.
        workers: who reads the files and works on the blocks, several at a time.
        rows_per_block: of all files together, about; None for as many as fit.

    Returns:
        An answer for each analysis, and the number of blocks.

    Raises:
        TooLargeError: the disk has no room for the rows in order.
    """
    n_rows = rows_per_block or _rows_per_block(workers)
    batches = _batches_of_one_run(query)
    plan = _Plan(analyses, query.rows_of, n_rows, max(1, n_rows // (_SAMPLES_PER_BLOCK * len(batches))))
    answered = _on_cluster if isinstance(workers, Cluster) else _on_disk
    of_processes, of_blocks = answered(plan, batches, workers)
    of_collectives = answers_from(plan.of_collectives, of_blocks)
    answers = {"process": iter(of_processes), "collective": iter(of_collectives)}
    return tuple(next(answers[one.unit]) for one in analyses), len(of_blocks)


def _batches_of_one_run(query: Query) -> list[list[File]]:
    """Return the files in batches, each by itself where a rank has several, as these are of several runs."""
    files = query.files
    if len({source.name.rank for source, _ in files}) < len(files):
        return [[file] for file in files]
    return query.batches


def _rows_per_block(workers: Cluster | LocalWorkers) -> int:
    if isinstance(workers, Cluster):
        return _MOST_ROWS
    room_bytes = free_memory_bytes() / (2 * workers.most * TIMES_THE_TABLE)  # half is for parts
    return int(max(1, min(_MOST_ROWS, room_bytes / _BYTES_PER_ROW)))


@dataclass(frozen=True)
class _Plan:
    """The analyses to run, the rows to read, and the size of blocks.

    Attributes:
        analyses: all analyses.
        rows_of: reads the chosen rows of a batch.
        rows_per_block: the number of rows in a block, of all files together, about.
        spacing: the distance between two samples of a batch's rows, in rows.
    """

    analyses: Analyses
    rows_of: RowsOf
    rows_per_block: int
    spacing: int

    @property
    def of_processes(self) -> Analyses:
        return [one for one in self.analyses if one.unit == "process"]

    @property
    def of_collectives(self) -> Analyses:
        return [one for one in self.analyses if one.unit == "collective"]

    @property
    def columns(self) -> Collection[str]:
        """The columns that are kept."""
        return {name for one in self.of_collectives for name in one.columns}

    def keeps(self, operation: str) -> bool:
        """Tell whether rows of an operation are kept that is neither a collective nor a wait for one."""
        return any(one.others(operation) for one in self.of_collectives)

    def blocks(self, kept: Sequence[Kept]) -> list[list[Range]]:
        """Divide the rows into blocks; without rows there is one empty block, to make an answer from."""
        return blocks_of(kept, self.rows_per_block, self.spacing) or [[]]


class _Read(NamedTuple):
    """What was made of a batch of files when it was read.

    Attributes:
        rows: the rows in order: ``InOrder``, or ``RowsOnDisk``.
        kept: what is needed to divide the rows into blocks.
        parts: the parts for the analyses of processes, or the path of the file that holds them.
    """

    rows: Any
    kept: Kept
    parts: Any


def _read(batch: Sequence[File], plan: _Plan) -> _Read:
    rows = plan.rows_of(batch)
    attrs, rows = rows.attrs, compact(rows)
    ordered = in_order(rows, plan.columns, plan.keeps, plan.spacing)
    rows.attrs = attrs
    n_rows = rows.groupby(["rank", "incarnation"]).size().to_dict()
    names = [(source.name.rank, source.name.incarnation) for source, _ in batch]
    processes = [Process(*name, int(n_rows.get(name, 0))) for name in names]
    kept = Kept(processes, ordered.segments, ordered.epochs)
    return _Read(ordered, kept, [one.map(rows) for one in plan.of_processes])


# -- a block ---------------------------------------------------------------------------------------------


def _taken(kept: InOrder | RowsOnDisk, ranges: Sequence[Range], run: int) -> list[Columns]:
    """Return a batch's rows of a block, in pieces, with the columns that describe the whole run."""
    found = [_with_what_the_run_tells(kept.between(0, 0), run, "", Meaning.NOTHING)]  # gives types to no rows
    found += [
        _with_what_the_run_tells(kept.between(first, end), run, one.ranks, one.epochs)
        for one, first, end in places(kept.segments, kept.number, ranges, run)
    ]
    return found


def _with_what_the_run_tells(rows: pd.DataFrame, run: int, ranks: str, epochs: Meaning) -> Columns:
    all_alike = np.zeros(len(rows), np.int8)
    return {str(name): rows[name] for name in rows} | {
        RUN_OF_RANK: pd.Series(run, range(len(rows)), np.int64),
        MEANING_OF_EPOCHS: pd.Series(int(epochs), range(len(rows)), np.int8),
        RANKS_OF_GROUP: pd.Series(pd.Categorical.from_codes(all_alike, pd.Index([ranks], dtype="str"))),
    }


def _parts_of_block(pieces: Sequence[list[Columns]], plan: _Plan) -> list[Any]:
    """Join the pieces of a block into one table, and map it by each analysis. This empties ``pieces``."""
    rows = joined([piece for of_batch in pieces for piece in of_batch], list(pieces[0][0]))
    rows = _process_by_process(rows)
    return [one.map(rows) for one in plan.of_collectives]


def _process_by_process(rows: pd.DataFrame) -> pd.DataFrame:
    """Sort the rows of a block by process, as in the whole table; a batch has those of its ranks mixed."""
    process = dense_codes(rows["rank"].to_numpy(), rows["incarnation"].to_numpy())
    if (np.diff(process) >= 0).all():
        return rows
    by_process: pd.DataFrame = rows.iloc[np.argsort(process, kind="stable")].reset_index(drop=True)
    return by_process


# -- on this machine -------------------------------------------------------------------------------------


def _on_disk(
    plan: _Plan, batches: Sequence[Sequence[File]], workers: Any
) -> tuple[list[Any], list[list[Any]]]:
    """Run the plan on this machine, with the rows of files kept on disk.

    Returns:
        The answers of the analyses of processes, which are made beside the blocks, and the parts of each
        block.
    """
    with (
        temporary_folder() as folder,
        workers.started(len(batches)) as started,
    ):
        begin("reading", len(batches))
        with _room_in(folder):
            read = started.map(partial(_stored, plan=plan, folder=folder), batches)
        rows, kept, parts = (list(of_each) for of_each in zip(*read, strict=True))
        part = partial(_parts_from_disk, plan, rows, runs(kept))
        tasks = [partial(_answers_from_disk, plan, parts)]
        tasks += [partial(part, block) for block in plan.blocks(kept)]
        begin("answering", len(tasks))
        of_processes, *of_blocks = started.map(_done, tasks)
        return of_processes, of_blocks


def _done(task: Callable[[], Any]) -> Any:
    return task()


@contextmanager
def _room_in(folder: Path) -> Iterator[None]:
    """Name the full disk in the error of a write, which itself names none."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise TooLargeError(
            f"There is no room left for the rows in order, in {str(folder)!r}; they take about as much as "
            "the timing files. Name another folder by TMPDIR, or choose fewer rows: --iterations A:B, or "
            "--ranks LIST."
        ) from error


def _stored(batch: Sequence[File], plan: _Plan, folder: Path) -> _Read:
    """Read a batch of files and store its rows and parts on disk.

    They take no memory while other files are read, and need not go through a pipe.
    """
    read = _read(batch, plan)
    its_folder = folder / batch[0][0].name.name
    rows, parts = RowsOnDisk.write(read.rows, its_folder), its_folder / "parts"
    with parts.open("wb") as kept:
        pickle.dump(read.parts, kept, pickle.HIGHEST_PROTOCOL)
    kept_elsewhere = read._replace(rows=rows, parts=parts)
    del read
    give_back_freed_memory()  # for the other processes: the next batch, or block, may be much smaller
    return kept_elsewhere


def _answers_from_disk(plan: _Plan, parts: Sequence[Path]) -> list[Any]:
    return answers_from(plan.of_processes, [pickle.loads(path.read_bytes()) for path in parts])


def _parts_from_disk(
    plan: _Plan, held: Sequence[RowsOnDisk], run_of: Sequence[int], ranges: Sequence[Range]
) -> list[Any]:
    return _parts_of_block([_taken(kept, ranges, run) for kept, run in zip(held, run_of, strict=True)], plan)


# -- on a cluster ----------------------------------------------------------------------------------------


def _on_cluster(
    plan: _Plan, batches: Sequence[Sequence[File]], workers: Any
) -> tuple[list[Any], list[list[Any]]]:
    """Run the plan on a cluster: what was read stays with the workers, and only the parts come here.

    Returns:
        The answers of the analyses of processes, and the parts of each block.
    """
    client = workers.client
    begin("reading", len(batches))
    read = workers.begun(partial(_read, plan=plan), batches)
    known = workers.gathered(workers.begun(_without_rows, read))
    kept = [of_batch for of_batch, _ in known]
    made = []
    for ranges in plan.blocks(kept):
        taken = [
            client.submit(_taken_from, one, ranges, run) for one, run in zip(read, runs(kept), strict=True)
        ]
        made.append(client.submit(_parts_of_block, taken, plan))
    begin("answering", len(made) + 1)
    of_blocks = workers.gathered(made)
    return answers_from(plan.of_processes, [parts for _, parts in known]), of_blocks


def _without_rows(read: _Read) -> tuple[Kept, Any]:
    return read.kept, read.parts


def _taken_from(read: _Read, ranges: Sequence[Range], run: int) -> list[Columns]:
    return _taken(read.rows, ranges, run)
