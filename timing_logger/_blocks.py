"""Collectives in blocks: all ranks' rows of a range of them at a time, of a run larger than memory.

Each file is read once. Its rows are put in the order of collectives and kept: in temporary files, or on the
workers of a cluster. Then each block takes what it needs of every file.
"""

from __future__ import annotations

import errno
import pickle
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from timing_logger._file_by_file import File, chosen_files, rows_of_file
from timing_logger._freed_memory import give_back_freed_memory
from timing_logger._rows_on_disk import RowsOnDisk
from timing_logger._sources import compact, joined
from timing_logger._workers import Cluster, Processes, Workers
from timing_logger.analysis._block_parts import Columns
from timing_logger.analysis._epochs import Meaning
from timing_logger.analysis._in_parts import InParts
from timing_logger.analysis._instance_order import (
    InOrder,
    Process,
    Range,
    blocks_of,
    in_order,
    places,
    runs,
)
from timing_logger.analysis.columns import MEANING_OF_EPOCHS, RANKS_OF_GROUP, RUN_OF_RANK
from timing_logger.errors import TooLargeError
from timing_logger.reading import TimingFiles

_SAMPLES_PER_BLOCK = 16


class InBlocks(NamedTuple):
    """Answers, and of how many blocks they were made.

    Attributes:
        of_collectives, of_files: what the two analyses say.
    """

    of_collectives: Any
    of_files: Any
    n_blocks: int


class BlockQuestion(NamedTuple):
    """Two analyses of the same rows.

    Attributes:
        by_block: of collectives; its parts are made of blocks.
        columns: those that it looks at.
        others: which operations it looks at beside collectives and the waits for them.
        by_file: of what processes do by themselves; its parts are made of files.
    """

    by_block: InParts[Any, Any]
    columns: Collection[str]
    others: Callable[[str], bool]
    by_file: InParts[Any, Any]


@dataclass(frozen=True)
class _Reading:
    """What is kept of a file, and how finely it is sampled; which files were left out."""

    question: BlockQuestion
    ranks: Collection[int] | None
    iterations: slice | None
    spacing: int
    left_out: list[dict[str, str]]


class _Read(NamedTuple):
    """A file, read: its rows in order, what is known of them, and its part of the other analysis."""

    rows: Any
    process: Process
    part: Any


def answered_in_blocks(
    question: BlockQuestion,
    found: TimingFiles,
    *,
    ranks: Collection[int] | None,
    iterations: slice | None,
    workers: Workers,
    rows_per_block: int,
) -> InBlocks:
    """What the analyses say of all chosen rows, of which only a block's are held together.

    Args:
        found: files of which the columns that the analyses look at are read.
        ranks, iterations: which rows count; None for all.
        workers: who reads the files and works on the blocks, several at a time.
        rows_per_block: of all files together, about.
    """
    files = chosen_files(found, ranks)
    spacing = max(1, rows_per_block // (_SAMPLES_PER_BLOCK * len(files)))
    reading = _Reading(question, ranks, iterations, spacing, found.left_out)
    made: Any = _on_cluster if isinstance(workers, Cluster) else _on_disk
    of_blocks, of_files = made(files, reading, rows_per_block, workers)
    return InBlocks(question.by_block.whole(of_blocks), of_files, len(of_blocks))


def _read(file: File, reading: _Reading) -> _Read:
    rows, description = rows_of_file(file, reading.ranks, reading.iterations)
    rows = compact(rows)
    ordered = in_order(rows, reading.question.columns, reading.question.others, reading.spacing)
    rows.attrs.update(files=[description], left_out=reading.left_out)
    process = Process(
        file[0].name.rank, file[0].name.incarnation, len(rows), ordered.segments, ordered.epochs
    )
    return _Read(ordered, process, reading.question.by_file.part(rows))


def _planned(processes: Sequence[Process], rows_per_block: int, spacing: int) -> list[list[Range]]:
    return blocks_of(processes, rows_per_block, spacing) or [[]]  # of no rows there is an answer too


# -- a block ---------------------------------------------------------------------------------------------


def _taken(kept: InOrder | RowsOnDisk, ranges: Sequence[Range], run: int) -> list[Columns]:
    """A process's rows of a block, in pieces, with the columns that say what a block alone does not tell."""
    found = [_with_what_the_run_tells(kept.between(0, 0), run, "", Meaning.NOTHING)]  # no rows have types too
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


def _of_all_processes(pieces: Sequence[list[Columns]]) -> pd.DataFrame:
    """One table, whose texts are those of any of them. Empties them."""
    return joined([piece for of_process in pieces for piece in of_process], list(pieces[0][0]))


# -- on this machine -------------------------------------------------------------------------------------


def _on_disk(
    files: Sequence[File], reading: _Reading, rows_per_block: int, workers: Processes
) -> tuple[list[Any], Any]:
    """The parts of the blocks, and the answer of the files, which takes as long as many a block."""
    with (
        tempfile.TemporaryDirectory(prefix="timing-logger-") as folder,
        workers.started(len(files)) as started,
    ):
        with _room_in(folder):
            read = started.map(partial(_stored, reading=reading, folder=Path(folder)), files)
        rows, processes, parts = (list(of_each) for of_each in zip(*read, strict=True))
        blocks = _planned(processes, rows_per_block, reading.spacing)
        part = partial(_part_from_disk, reading.question, rows, runs(processes))
        tasks = [partial(_of_files, reading.question, parts), *(partial(part, block) for block in blocks)]
        of_files, *of_blocks = started.map(_done, tasks)
        return of_blocks, of_files


def _done(task: Callable[[], Any]) -> Any:
    return task()


@contextmanager
def _room_in(folder: str) -> Iterator[None]:
    """Says which disk is full: the error of a write names none."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise TooLargeError(
            f"There is no room left for the rows in order, in {folder!r}; they take about as much as the "
            "timing files. Name another folder by TMPDIR, or choose fewer rows: --iterations A:B, or "
            "--ranks LIST."
        ) from error


def _of_files(question: BlockQuestion, parts: Sequence[Path]) -> Any:
    return question.by_file.whole([_loaded(part) for part in parts])


def _loaded(part: Path) -> Any:
    with part.open("rb") as kept:
        return pickle.load(kept)


def _stored(file: File, reading: _Reading, folder: Path) -> _Read:
    """The same, on disk: nobody holds it while other files are read, nor has it to go through a pipe."""
    read = _read(file, reading)
    its_folder = folder / file[0].name.name
    rows, part = RowsOnDisk.write(read.rows, its_folder), its_folder / "part"
    with part.open("wb") as kept:
        pickle.dump(read.part, kept, pickle.HIGHEST_PROTOCOL)
    kept_elsewhere = read._replace(rows=rows, part=part)
    del read
    give_back_freed_memory()  # to the other processes: the next file, or block, may be much smaller
    return kept_elsewhere


def _part_from_disk(
    question: BlockQuestion, held: Sequence[RowsOnDisk], run_of: Sequence[int], ranges: Sequence[Range]
) -> Any:
    pieces = [_taken(kept, ranges, run) for kept, run in zip(held, run_of, strict=True)]
    return question.by_block.part(_of_all_processes(pieces))


# -- on a cluster ----------------------------------------------------------------------------------------


def _on_cluster(
    files: Sequence[File], reading: _Reading, rows_per_block: int, workers: Any
) -> tuple[list[Any], Any]:
    """The same. What was read stays with the workers; the parts alone come here."""
    client = workers.client
    read = client.map(partial(_read, reading=reading), files, pure=False)
    known = client.gather(client.map(_without_rows, read))
    run_of = runs([process for process, _ in known])
    made = []
    for ranges in _planned([process for process, _ in known], rows_per_block, reading.spacing):
        taken = [client.submit(_taken_from, one, ranges, run) for one, run in zip(read, run_of, strict=True)]
        made.append(client.submit(_part_of_taken, reading.question, taken))
    return client.gather(made), reading.question.by_file.whole([part for _, part in known])


def _without_rows(read: _Read) -> tuple[Process, Any]:
    return read.process, read.part


def _taken_from(read: _Read, ranges: Sequence[Range], run: int) -> list[Columns]:
    return _taken(read.rows, ranges, run)


def _part_of_taken(question: BlockQuestion, pieces: Sequence[list[Columns]]) -> Any:
    return question.by_block.part(_of_all_processes(pieces))
