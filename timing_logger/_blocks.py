"""Collectives in blocks: all ranks' rows of a range of them at a time, of a run larger than memory.

Each file is read once. Its rows are put in the order of collectives and kept: in temporary files, or on the
workers of a cluster. Then each block takes what it needs of every file.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from timing_logger._file_by_file import File, chosen_files, rows_of_file
from timing_logger._sources import compact, joined
from timing_logger._workers import Cluster, Workers
from timing_logger.analysis._in_parts import InParts
from timing_logger.analysis._instance_order import (
    InOrder,
    Process,
    Range,
    Segment,
    blocks_of,
    in_order,
    places,
    runs,
)
from timing_logger.analysis.columns import RANKS_OF_GROUP, RUN_OF_RANK
from timing_logger.errors import TooLargeError
from timing_logger.reading import TimingFiles

_SAMPLES_PER_BLOCK = 16
_ROWS_PER_PIECE = 2**16


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
        others: which operations it looks at beside collectives and the waits for them.
        by_file: of what processes do by themselves; its parts are made of files.
    """

    by_block: InParts[Any, Any]
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
    made = _on_cluster if isinstance(workers, Cluster) else _on_disk
    of_blocks, of_files = made(files, reading, rows_per_block, workers)
    return InBlocks(question.by_block.whole(of_blocks), of_files, len(of_blocks))


def _read(file: File, reading: _Reading) -> _Read:
    rows, description = rows_of_file(file, reading.ranks, reading.iterations)
    rows = compact(rows)
    ordered = in_order(rows, reading.question.others, reading.spacing)
    is_chosen = reading.ranks is None or description["rank"] in reading.ranks
    rows.attrs.update(files=[description] * is_chosen, left_out=reading.left_out)
    process = Process(file[0].name.rank, len(rows), ordered.segments)
    return _Read(ordered, process, reading.question.by_file.part(rows))


def _planned(processes: Sequence[Process], rows_per_block: int, spacing: int) -> list[list[Range]]:
    return blocks_of(processes, rows_per_block, spacing) or [[]]  # of no rows there is an answer too


# -- a block ---------------------------------------------------------------------------------------------


def _taken(kept: InOrder | _Stored, ranges: Sequence[Range], run: int) -> pd.DataFrame:
    """A process's rows of a block, with the columns that say what a block alone does not tell."""
    found = [(kept.between(0, 0), "")]
    found += [
        (kept.between(first, end), one.ranks)
        for one, first, end in places(kept.segments, kept.number, ranges, run)
    ]
    rows = pd.concat([rows for rows, _ in found], ignore_index=True)
    texts = sorted({ranks for _, ranks in found})
    codes = np.repeat([texts.index(ranks) for _, ranks in found], [len(rows) for rows, _ in found])
    rows[RUN_OF_RANK], rows[RANKS_OF_GROUP] = run, pd.Categorical.from_codes(codes, pd.Index(texts))
    return rows


def _of_all_processes(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One table, whose texts are those of any of them."""
    columns: list[Any] = list(tables[0].columns)
    return joined([{name: table[name] for name in columns} for table in tables], columns)


# -- on this machine -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Stored:
    """The rows of one process, in order, in pieces on disk: only those that are asked for are loaded."""

    folder: Path
    segments: list[Segment]

    @classmethod
    def write(cls, ordered: InOrder, folder: Path) -> _Stored:
        folder.mkdir()
        np.save(folder / "number.npy", ordered.number)
        for n_piece, first in enumerate(range(0, max(len(ordered.rows), 1), _ROWS_PER_PIECE)):
            ordered.between(first, first + _ROWS_PER_PIECE).to_pickle(folder / f"{n_piece}.pickle")
        return cls(folder, ordered.segments)

    @property
    def number(self) -> Any:
        return np.load(self.folder / "number.npy", mmap_mode="r")

    def between(self, first: int, end: int) -> pd.DataFrame:
        pieces = range(first // _ROWS_PER_PIECE, max(end - 1, first) // _ROWS_PER_PIECE + 1)
        rows: pd.DataFrame = pd.concat(
            [
                self._piece(n_piece).iloc[max(first - begin, 0) : max(end - begin, 0)]
                for n_piece in pieces
                for begin in [n_piece * _ROWS_PER_PIECE]
            ]
        )
        return rows

    def _piece(self, n_piece: int) -> pd.DataFrame:
        rows: pd.DataFrame = pd.read_pickle(self.folder / f"{n_piece}.pickle")
        return rows


def _on_disk(
    files: Sequence[File], reading: _Reading, rows_per_block: int, workers: Workers
) -> tuple[list[Any], Any]:
    """The parts of the blocks, and the answer of the files."""
    with tempfile.TemporaryDirectory(prefix="timing-logger-") as folder:
        with _room_in(folder):
            read = workers.map(partial(_stored, reading=reading, folder=Path(folder)), files)
        rows, processes, parts = (list(of_each) for of_each in zip(*read, strict=True))
        del read
        blocks = _planned(processes, rows_per_block, reading.spacing)
        part = partial(_part_from_disk, reading.question, rows, runs(processes))
        with ThreadPoolExecutor(1) as beside:  # the workers are other processes
            of_files = beside.submit(_emptied, reading.question.by_file.whole, parts)
            return workers.map(part, blocks), of_files.result()


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


def _emptied(whole: Callable[[Sequence[Any]], Any], parts: list[Any]) -> Any:
    """The answer from parts that nobody holds any more when it is there."""
    answer = whole(parts)
    parts.clear()
    return answer


def _stored(file: File, reading: _Reading, folder: Path) -> _Read:
    read = _read(file, reading)
    return read._replace(rows=_Stored.write(read.rows, folder / file[0].name.name))


def _part_from_disk(
    question: BlockQuestion, held: Sequence[_Stored], run_of: Sequence[int], ranges: Sequence[Range]
) -> Any:
    tables = [_taken(kept, ranges, run) for kept, run in zip(held, run_of, strict=True)]
    return question.by_block.part(_of_all_processes(tables))


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


def _taken_from(read: _Read, ranges: Sequence[Range], run: int) -> pd.DataFrame:
    return _taken(read.rows, ranges, run)


def _part_of_taken(question: BlockQuestion, tables: Sequence[pd.DataFrame]) -> Any:
    return question.by_block.part(_of_all_processes(tables))
