"""The rows of one process in the order of collectives, so that a run can be taken in blocks.

A block has all rows, of all ranks, of a range of collectives: those of a group that have a number (``seq``)
by this number, with the ``WAIT`` rows for them; the others by their iteration. So no collective is ever
torn, whatever iteration its ranks say it was in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from timing_logger.analysis.columns import COLUMNS_OF, EPOCH_OF_STEP, PROCESS_RESTARTS
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
)

if TYPE_CHECKING:
    import pandas as pd

NUMBERED, BY_ITERATION, OTHERS = range(3)
"""How rows are found together: by ``seq``, by their order in an iteration, or not at all."""

_UNKNOWN = -1.0


class Key(NamedTuple):
    """Rows that are matched among themselves; in the order in which instances are numbered.

    Attributes:
        others: whether they are matched with nothing; those come last.
        group, group_size: of the rows; -1 if the size is unknown.
        by_iteration: whether the rows have no ``seq``.
    """

    others: bool
    group: str
    group_size: float
    by_iteration: bool


class Segment(NamedTuple):
    """The rows of one key, which stand together.

    Attributes:
        key: what they have in common.
        first, end: where they stand.
        sample: every so many rows the number by which they are sorted: ``seq``, iteration (-inf if there
            is none), or position.
        is_torn: whether its numbers do not say what belongs together: one comes twice, as the group had been
            made anew under its old name; or iterations begin anew, and how often is counted.
        has_collectives: whether there are others than ``WAIT`` rows.
    """

    key: Key
    first: int
    end: int
    sample: Floats
    is_torn: bool
    has_collectives: bool


class InOrder(NamedTuple):
    """The rows of one process, by key, then number, then as they were.

    Attributes:
        rows: with the columns that were asked for, and ``EPOCH_OF_STEP``.
        number: by which they are sorted within a segment.
        segments: all of them.
        epochs: what they are for in the process.
    """

    rows: pd.DataFrame
    number: Floats
    segments: list[Segment]
    epochs: Meaning = Meaning.NOTHING

    def between(self, first: int, end: int) -> pd.DataFrame:
        rows: pd.DataFrame = self.rows.iloc[first:end]
        return rows


def in_order(
    timings: pd.DataFrame, columns: Collection[str], others: Callable[[str], bool], spacing: int
) -> InOrder:
    """Sort the rows of one process.

    Args:
        timings: in the order of recording.
        columns: to be kept, beside those that every table has.
        others: which operations are to be kept beside collectives and the waits for them.
        spacing: of the samples, in rows.
    """
    frame = opened(timings, COLUMNS_OF["bandwidth"])
    named = coded_text(frame, "operation")
    collective = each_text(named, is_collective)
    epochs = epochs_of(frame)
    counted = epochs.meaning == Meaning.TELL_AND_ARE_COUNTED
    kind, number = _places(frame, collective, each_text(named, is_wait))
    kept = (kind != OTHERS) | each_text(named, others)
    group, group_size = coded_text(frame, "group"), numbers(frame, "group_size")
    communicator = np.where(kind == OTHERS, -1, dense_codes(group[0], group_size))
    order = np.lexsort((number, kind, communicator, kind == OTHERS))
    order = order[kept[order]]
    bounds = _bounds(dense_codes(communicator[order], kind[order]))
    segments = [
        Segment(
            key=_key(int(kind[row]), group[1][group[0][row]], float(group_size[row])),
            first=first,
            end=end,
            sample=number[order[first:end:spacing]],
            is_torn=_is_torn(number[order[first:end]], collective[order[first:end]], int(kind[row]), counted),
            has_collectives=bool(collective[order[first:end]].any()),
        )
        for first, end in bounds
        for row in [order[first]]
    ]
    kept_columns = {"rank", "incarnation", *columns}
    rows: pd.DataFrame = timings[[name for name in timings if name in kept_columns]].iloc[order]
    rows = rows.reset_index(drop=True)
    of_epochs = {EPOCH_OF_STEP: epochs.of_row[order], PROCESS_RESTARTS: epochs.restarts[order]}
    return InOrder(rows.assign(**of_epochs), number[order], segments, epochs.meaning)


def _places(frame: Frame, collective: Bools, waiting: Bools) -> tuple[Ints, Floats]:
    """For each row its kind, and by which number it is sorted."""
    seq, iteration = numbers(frame, "seq"), numbers(frame, "iteration")
    has_number = ~np.isnan(seq)
    kind = np.select([(collective | waiting) & has_number, collective], [NUMBERED, BY_ITERATION], OTHERS)
    iteration = np.where(np.isnan(iteration), -np.inf, iteration)
    return kind, np.choose(kind, [seq, iteration, np.arange(len(seq), dtype=np.float64)])


def _key(kind: int, group: str, group_size: float) -> Key:
    if kind == OTHERS:
        return Key(True, "", _UNKNOWN, False)
    return Key(False, group, _UNKNOWN if np.isnan(group_size) else group_size, kind == BY_ITERATION)


def _bounds(code: Ints) -> list[tuple[int, int]]:
    """From where to where equal codes stand."""
    first = np.flatnonzero(np.diff(code, prepend=-1))
    return list(zip(first.tolist(), [*first[1:].tolist(), len(code)], strict=False))


def _is_torn(number: Floats, collective: Bools, kind: int, counted: bool) -> bool:
    number = number[collective]
    return (kind == BY_ITERATION and counted) or (kind == NUMBERED and bool((np.diff(number) == 0).any()))


# -- blocks ----------------------------------------------------------------------------------------------


class Process(NamedTuple):
    """What is known of one file's rows before they are looked at again.

    Attributes:
        rank, incarnation: of the process.
        n_rows: that were chosen, of whatever operation.
        segments, epochs: as ``in_order`` found them.
    """

    rank: int
    incarnation: int
    n_rows: int
    segments: list[Segment]
    epochs: Meaning


class Range(NamedTuple):
    """Rows of one key in a block.

    Attributes:
        key: what they have in common.
        run: the run that they are of, as ``runs_of`` has it.
        least, below: numbers from the one on, and before the other.
        ranks: those of the group in the whole run, with blanks between.
        epochs: what they are for in the whole run.
    """

    key: Key
    run: int
    least: float
    below: float
    ranks: str
    epochs: Meaning


def blocks_of(processes: Sequence[Process], rows_per_block: int, spacing: int) -> list[list[Range]]:
    """Blocks of about so many rows of all processes together, in the order of instances.

    What must not be torn makes a block larger: a collective, an iteration's collectives without numbers, and
    all of a group that was made anew under its old name.
    """
    run = runs(processes)
    segments: dict[tuple[Key, int], list[Segment]] = {}
    for process, its_run in zip(processes, run, strict=True):
        for segment in process.segments:
            segments.setdefault((segment.key, its_run), []).append(segment)
    ranks, epochs = _ranks_of_groups(processes, run), max(process.epochs for process in processes)
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


def runs(processes: Sequence[Process]) -> list[int]:
    """For each process the run that it was of; one without rows was of none, and has any."""
    has_rows = np.array([process.n_rows > 0 for process in processes])
    rank, incarnation = np.array([process[:2] for process in processes], np.int64).T
    found = np.zeros(len(processes), np.int64)
    found[has_rows] = runs_of(rank[has_rows], incarnation[has_rows])
    of_each: list[int] = found.tolist()
    return of_each


def _as_instances_are_numbered(of_key: tuple[Key, int]) -> tuple[bool, str, float, int, bool]:
    key, run = of_key
    return key.others, key.group, key.group_size, run, key.by_iteration


def _ranks_of_groups(processes: Sequence[Process], run: Sequence[int]) -> dict[tuple[object, int], str]:
    found: dict[tuple[object, int], set[int]] = {}
    for process, its_run in zip(processes, run, strict=True):
        for segment in process.segments:
            if segment.has_collectives:
                found.setdefault((segment.key[:3], its_run), set()).add(process.rank)
    return {key: " ".join(map(str, sorted(ranks))) for key, ranks in found.items()}


def _pieces(segments: Sequence[Segment], rows_per_block: int, spacing: int) -> list[tuple[float, float, int]]:
    """From which number on, before which, and about how many rows."""
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
    """Each range, and from where to where its rows stand among those of a process of that run."""
    of_key = {segment.key: segment for segment in segments}
    found = []
    for one in ranges:
        segment = of_key.get(one.key)
        if segment is not None and one.run == run:
            here = number[segment.first : segment.end]
            first, end = (segment.first + np.searchsorted(here, [one.least, one.below])).tolist()
            found.append((one, first, end))
    return found
