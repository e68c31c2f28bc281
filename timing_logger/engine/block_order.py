"""Sort the rows of processes in the order of collectives, so that a run can be processed in blocks.

A block has all rows, of all ranks, of a range of collectives. Collectives of a group that have a sequence
number (``seq``) are ranged by this number, with the ``WAIT`` rows for them; the others by their iteration. So
no collective is ever split between blocks, whatever iteration its ranks recorded for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from timing_logger.analysis.columns import (
    COLUMNS_OF_COLLECTIVES,
    EPOCH_OF_STEP,
    PROCESS_RESTARTS,
    ROW_OF_PROCESS,
)
from timing_logger.analysis.epochs import Meaning, epochs_of
from timing_logger.analysis.operations import is_collective, is_wait
from timing_logger.analysis.runs import runs_of
from timing_logger.analysis.tables import (
    Bools,
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    numbers,
    opened,
    processes_of,
)

if TYPE_CHECKING:
    import pandas as pd

NUMBERED, BY_ITERATION, OTHERS = range(3)
"""How a row is matched with rows of other ranks: by ``seq``, by its order in an iteration, or not at all."""

_UNKNOWN = -1.0


class Key(NamedTuple):
    """The key of rows that are matched among themselves.

    Keys sort in the order in which instances are numbered.

    Attributes:
        others: whether the rows are matched with nothing; such keys come last.
        group, group_size: of the rows; the size is -1 if it is unknown.
        by_iteration: whether the rows have no ``seq``.
    """

    others: bool
    group: str
    group_size: float
    by_iteration: bool


class Segment(NamedTuple):
    """A contiguous range of the sorted rows of processes: those of one key.

    Attributes:
        key: the key that the rows have in common.
        first, end: positions of the first row and behind the last.
        sample: the number by which rows are sorted, of every ``spacing``-th row (see ``in_order``): ``seq``,
            iteration (-inf if there is none), or position.
        is_torn: whether the numbers do not tell which rows belong together: one occurs twice because the
            group was created again under its old name, or iterations restart and the restarts are counted.
        ranks: the ranks that have collectives there, not only ``WAIT`` rows.
    """

    key: Key
    first: int
    end: int
    sample: Floats
    is_torn: bool
    ranks: list[int]


class InOrder(NamedTuple):
    """The rows of processes of one run, sorted by key, then number, then process, then as recorded.

    Attributes:
        rows: with the columns that were asked for, ``EPOCH_OF_STEP`` and ``PROCESS_RESTARTS``; and with
            ``ROW_OF_PROCESS``, if it was asked for.
        number: one entry per row: the number by which rows are sorted within a segment.
        segments: all segments, in the order of their rows.
        epochs: what epochs are for in these processes.
    """

    rows: pd.DataFrame
    number: Floats
    segments: list[Segment]
    epochs: Meaning = Meaning.NOTHING

    def between(self, first: int, end: int) -> pd.DataFrame:
        """Return the rows from position ``first`` to before ``end``."""
        rows: pd.DataFrame = self.rows.iloc[first:end]
        return rows


def in_order(
    timings: pd.DataFrame, columns: Collection[str], others: Callable[[str], bool], spacing: int
) -> InOrder:
    """Sort the rows of processes of one run by key and number.

    Args:
        timings: the rows, process by process, in the order of recording.
        columns: the columns to keep, beside ``rank`` and ``incarnation``.
        others: tells of an operation whether its rows are kept; those of collectives and of the waits for
            them always are.
        spacing: the distance between two samples of a segment, in rows.
    """
    frame = opened(timings, COLUMNS_OF_COLLECTIVES)
    named = coded_text(frame, "operation")
    collective = each_text(named, is_collective)
    epochs = epochs_of(frame)
    counted = epochs.meaning == Meaning.TELL_AND_ARE_COUNTED
    process = processes_of(frame)
    position = np.arange(len(process)) - np.searchsorted(process, process)
    kind, number = _places(frame, collective, each_text(named, is_wait), position)
    kept = (kind != OTHERS) | each_text(named, others)
    group, group_size = coded_text(frame, "group"), numbers(frame, "group_size")
    communicator = np.where(kind == OTHERS, -1, dense_codes(group[0], group_size))
    order = np.lexsort((number, kind, communicator, kind == OTHERS))
    order = order[kept[order]]
    bounds = _bounds(dense_codes(communicator[order], kind[order]))
    rank = frame["rank"].to_numpy()
    segments = [
        Segment(
            key=_key(int(kind[row]), group[1][group[0][row]], float(group_size[row])),
            first=first,
            end=end,
            sample=number[order[first:end:spacing]],
            is_torn=_is_torn(number[together], process[together], int(kind[row]), counted),
            ranks=np.unique(rank[together]).tolist(),
        )
        for first, end in bounds
        for row, together in [(order[first], _those(order[first:end], collective))]
    ]
    kept_columns = {"rank", "incarnation", *columns}
    rows: pd.DataFrame = timings[[name for name in timings if name in kept_columns]].iloc[order]
    rows = rows.reset_index(drop=True)
    added = {EPOCH_OF_STEP: epochs.of_row[order], PROCESS_RESTARTS: epochs.restarts[order]}
    if ROW_OF_PROCESS in columns:
        added[ROW_OF_PROCESS] = position[order]
    return InOrder(rows.assign(**added), number[order], segments, epochs.meaning)


def _those(rows: Ints, wanted: Bools) -> Ints:
    return rows[wanted[rows]]


def _places(frame: Frame, collective: Bools, waiting: Bools, position: Ints) -> tuple[Ints, Floats]:
    """Return how each row is matched (``NUMBERED``, ...), and the number by which it is sorted.

    Args:
        frame: the rows.
        collective, waiting: which rows are of collectives, and of waits.
        position: of each row in its process.
    """
    seq, iteration = numbers(frame, "seq"), numbers(frame, "iteration")
    has_number = ~np.isnan(seq)
    kind = np.select([(collective | waiting) & has_number, collective], [NUMBERED, BY_ITERATION], OTHERS)
    iteration = np.where(np.isnan(iteration), -np.inf, iteration)
    return kind, np.choose(kind, [seq, iteration, position.astype(np.float64)])


def _key(kind: int, group: str, group_size: float) -> Key:
    if kind == OTHERS:
        return Key(True, "", _UNKNOWN, False)
    return Key(False, group, _UNKNOWN if np.isnan(group_size) else group_size, kind == BY_ITERATION)


def _bounds(code: Ints) -> list[tuple[int, int]]:
    """Return the first position and the end of each run of equal codes."""
    first = np.flatnonzero(np.diff(code, prepend=-1))
    return list(zip(first.tolist(), [*first[1:].tolist(), len(code)], strict=False))


def _is_torn(number: Floats, process: Ints, kind: int, counted: bool) -> bool:
    """Tell whether numbers do not tell which of these collectives, sorted by number, belong together."""
    twice = (np.diff(number) == 0) & (np.diff(process) == 0)
    return (kind == BY_ITERATION and counted) or (kind == NUMBERED and bool(twice.any()))


# -- blocks ----------------------------------------------------------------------------------------------


class Process(NamedTuple):
    """A process, and the number of its selected rows, of whatever operation."""

    rank: int
    incarnation: int
    n_rows: int


class Kept(NamedTuple):
    """What is known of rows that are kept, to divide a run into blocks.

    Attributes:
        processes: whose rows they are: those of one process, or of several of one run.
        segments, epochs: as ``in_order`` found them.
    """

    processes: list[Process]
    segments: list[Segment]
    epochs: Meaning


class Range(NamedTuple):
    """A range of rows of one key, as a part of a block.

    Attributes:
        key: the key that the rows have in common.
        run: the number of the run that they belong to, as ``runs_of`` returns.
        least, below: the range has the numbers from ``least`` to before ``below``.
        ranks: the ranks of the group in the whole run, separated by blanks.
        epochs: what epochs are for in the whole run.
    """

    key: Key
    run: int
    least: float
    below: float
    ranks: str
    epochs: Meaning


def blocks_of(kept: Sequence[Kept], rows_per_block: int, spacing: int) -> list[list[Range]]:
    """Divide a run into blocks, in the order in which instances are numbered.

    A block is larger where rows must stay together: those of one collective, of one iteration's collectives
    without numbers, and all rows of a group that was created again under its old name.

    Args:
        kept: the rows of all processes of all runs.
        rows_per_block: the number of rows in a block, of all processes together, about.
        spacing: the distance between two samples of the segments, in rows.
    """
    run = runs(kept)
    segments: dict[tuple[Key, int], list[Segment]] = {}
    for one, its_run in zip(kept, run, strict=True):
        for segment in one.segments:
            segments.setdefault((segment.key, its_run), []).append(segment)
    ranks, epochs = _ranks_of_groups(kept, run), max(one.epochs for one in kept)
    blocks: list[list[Range]] = []
    room = 0
    for key, its_run in sorted(segments, key=_as_instances_are_numbered):
        for least, below, n_rows in _pieces(segments[key, its_run], rows_per_block, spacing):
            if n_rows > room or not blocks:
                blocks.append([])
                room = rows_per_block
            room -= n_rows
            blocks[-1].append(Range(key, its_run, least, below, ranks.get((key[:3], its_run), ""), epochs))
    return blocks


def runs(kept: Sequence[Kept]) -> list[int]:
    """Return the number of the run that rows are of; a process without rows belongs to none and gets 0."""
    processes = [process for one in kept for process in one.processes]
    rank, incarnation, n_rows = np.array(processes, np.int64).reshape(-1, 3).T
    found = np.zeros(len(processes), np.int64)
    found[n_rows > 0] = runs_of(rank[n_rows > 0], incarnation[n_rows > 0])
    first = np.cumsum([0, *(len(one.processes) for one in kept)])[:-1]
    return [int(of_each) for of_each in found[first]]


def _as_instances_are_numbered(of_key: tuple[Key, int]) -> tuple[bool, str, float, int, bool]:
    key, run = of_key
    return key.others, key.group, key.group_size, run, key.by_iteration


def _ranks_of_groups(kept: Sequence[Kept], run: Sequence[int]) -> dict[tuple[object, int], str]:
    found: dict[tuple[object, int], set[int]] = {}
    for one, its_run in zip(kept, run, strict=True):
        for segment in one.segments:
            if segment.ranks:
                found.setdefault((segment.key[:3], its_run), set()).update(segment.ranks)
    return {key: " ".join(map(str, sorted(ranks))) for key, ranks in found.items()}


def _pieces(segments: Sequence[Segment], rows_per_block: int, spacing: int) -> list[tuple[float, float, int]]:
    """Divide the rows of one key; return each piece's least number, upper bound and rough row count."""
    n_rows = sum(segment.end - segment.first for segment in segments)
    if any(segment.is_torn for segment in segments):
        return [(-np.inf, np.inf, n_rows)]
    number, counts = np.unique(np.concatenate([s.sample for s in segments]), return_counts=True)
    place = (np.cumsum(counts) - counts) * spacing // rows_per_block
    cuts = number[np.flatnonzero(np.diff(place, prepend=0))].tolist()
    edges = [-np.inf, *(cut for cut in cuts if cut > number[0]), np.inf]
    each = n_rows // (len(edges) - 1)
    return [(least, below, each) for least, below in pairwise(edges)]


def places(
    segments: Sequence[Segment], number: Floats, ranges: Sequence[Range], run: int
) -> list[tuple[Range, int, int]]:
    """Find the rows of each range among those that are kept together.

    Args:
        segments, number: as ``in_order`` returned them.
        ranges: the ranges of a block.
        run: the number of the run that the rows are of; ranges of other runs are left out.

    Returns:
        For each range that there is a segment for: the range, and the position of its first row and
        behind its last.
    """
    of_key = {segment.key: segment for segment in segments}
    found = []
    for one in ranges:
        segment = of_key.get(one.key)
        if segment is not None and one.run == run:
            here = number[segment.first : segment.end]
            first, end = (segment.first + np.searchsorted(here, [one.least, one.below])).tolist()
            found.append((one, first, end))
    return found
