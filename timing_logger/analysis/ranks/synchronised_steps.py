"""Sum the rows of operations that synchronise all ranks by rank and step.

The sums are about a hundredth of the rows, and all that a comparison of ranks needs. They can be made file by
file and joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.epochs import epochs_of
from timing_logger.analysis.grouping import any_row_of, greatest_of_each, sums
from timing_logger.analysis.operations import synchronises_all_ranks
from timing_logger.analysis.tables import (
    Bools,
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    in_few_bytes,
    numbers,
)
from timing_logger.record import OK


class SynchronisedSteps(NamedTuple):
    """Sums over the valid rows of each operation, group, process and step; one entry for each.

    Attributes:
        names: the distinct pairs of operation and group, ascending.
        name: index of the entry's pair in ``names``.
        rank, incarnation: of the process.
        epoch, iteration, seq: of the step; NaN where not recorded. ``seq`` is also NaN where the iteration
            is recorded.
        group_size: the largest group size that is stated; NaN if none is.
        n_rows, total_bytes, time_ms: the number of rows, and sums of their bytes and times.
    """

    names: list[tuple[str, str]]
    name: Ints
    rank: Ints
    incarnation: Ints
    epoch: Floats
    iteration: Floats
    seq: Floats
    group_size: Floats
    n_rows: Ints
    total_bytes: Floats
    time_ms: Floats

    def only(self, wanted: Bools) -> SynchronisedSteps:
        """Return the entries that are ``wanted``, with the same ``names``."""
        return SynchronisedSteps._make((self.names, *(values[wanted] for values in self[1:])))


def synchronised_steps(frame: Frame) -> SynchronisedSteps:
    """Sum the rows of operations that synchronise all ranks, of a table that ``opened`` returned."""
    operation, group = coded_text(frame, "operation"), coded_text(frame, "group")
    elapsed_ms = numbers(frame, "elapsed_ms")
    is_ok = each_text(coded_text(frame, "status"), OK.__eq__)
    row = np.flatnonzero(each_text(operation, synchronises_all_ranks) & is_ok & (elapsed_ms >= 0))
    rank, incarnation = (frame[name].to_numpy()[row] for name in ("rank", "incarnation"))
    iteration, seq = (numbers(frame, name)[row] for name in ("iteration", "seq"))
    epoch = epochs_of(frame).of_row[row]
    seq = np.where(np.isnan(iteration), seq, np.nan)
    name = dense_codes(operation[0][row], group[0][row])
    key = dense_codes(name, rank, incarnation, epoch, iteration, seq)
    one = any_row_of(key)
    one_of_name = row[any_row_of(name)]
    names = [(operation[1][operation[0][i]], group[1][group[0][i]]) for i in one_of_name]
    return SynchronisedSteps(
        names=names,
        name=in_few_bytes(name[one]),
        rank=in_few_bytes(rank[one]),
        incarnation=in_few_bytes(incarnation[one]),
        epoch=epoch[one],
        iteration=iteration[one],
        seq=seq[one],
        group_size=greatest_of_each(numbers(frame, "group_size")[row], key, len(one)),
        n_rows=in_few_bytes(np.bincount(key, minlength=len(one))),
        total_bytes=sums(numbers(frame, "message_size_bytes")[row], key, len(one)),
        time_ms=sums(elapsed_ms[row], key, len(one)),
    )


def joined_steps(parts: Sequence[SynchronisedSteps]) -> SynchronisedSteps:
    """Join the sums of tables that have no process in common."""
    names = sorted({name for part in parts for name in part.names})
    place = {name: i for i, name in enumerate(names)}
    moved = [
        part._replace(name=in_few_bytes(np.array([place[name] for name in part.names], np.int64))[part.name])
        for part in parts
    ]
    columns = (np.concatenate(values) for values in zip(*(part[1:] for part in moved), strict=True))
    return SynchronisedSteps._make((names, *columns))
