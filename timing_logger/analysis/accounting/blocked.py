"""Divide the time in which lines were blocked: waiting, for whom, and transfers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.axis import OneAxis
from timing_logger.analysis.accounting.holds import holds_of
from timing_logger.analysis.accounting.loops import UNKNOWN, origins
from timing_logger.analysis.accounting.ties import Needs
from timing_logger.analysis.arrays import in_few_bytes
from timing_logger.analysis.intervals import instants
from timing_logger.analysis.table_types import Bools, Floats, Ints

TRANSFER, WAITING, NOT_MATCHED = range(3)
"""What a line that was blocked did in a stretch of time."""

NO_RANK = -1


class Blocked(NamedTuple):
    """The stretches of time in which lines were blocked.

    Attributes:
        row: the row that blocked the line.
        start_s, end_s: on the axis of all ranks, in seconds.
        what: ``TRANSFER``, ``WAITING`` or ``NOT_MATCHED``.
        rank: the rank for which the line waited; ``NO_RANK`` where it waited for a transfer between others,
            and where it did not wait.
    """

    row: Ints
    start_s: Floats
    end_s: Floats
    what: Ints
    rank: Ints

    @property
    def ms(self) -> Floats:
        """How long each stretch lasted, in ms."""
        return 1e3 * (self.end_s - self.start_s)


def blocked_times(
    axis: OneAxis, needs: Needs, is_whole: Bools, line: Ints, holds: Bools, blocks: Bools
) -> Blocked:
    """Divide the time in which lines were blocked.

    Args:
        axis: the rows of communication, on one axis.
        needs: what each of them waited for.
        is_whole: for each row whether all ranks of its collective have rows; else it may have waited for
            another.
        line: the line of each row.
        holds, blocks: as those of ``lines.Roles``.
    """
    start_s, end_s, _ = instants(axis.frame)
    found = holds_of(line, holds, start_s, end_s, needs.until_s)
    until_s, by = needs.until_s[found.row], needs.row[found.row]
    needed = np.where(by >= 0, line[by], -1)
    first = np.searchsorted(found.line, np.arange(int(line.max(initial=-1)) + 2))
    waits_until_s = np.minimum(np.where(np.isnan(until_s), found.start_s, until_s), found.end_s)
    order = np.argsort(waits_until_s, kind="stable")
    hold, begins_s, ends_s, leads_to = origins(
        first, found.start_s, found.end_s, until_s, needed, order, blocks[found.row]
    )
    waits = begins_s < until_s[hold]
    is_known = (leads_to != UNKNOWN) & (waits | is_whole[found.row[hold]])
    what = np.where(is_known, np.where(waits, WAITING, TRANSFER), NOT_MATCHED)
    rank_of_line = np.full(len(first), NO_RANK)
    rank_of_line[line] = axis.frame["rank"].to_numpy()
    rank = np.where(waits & (leads_to >= 0), rank_of_line[leads_to], NO_RANK)
    row, what, rank = (in_few_bytes(values) for values in (found.row[hold], what, rank))
    return Blocked(row, begins_s, ends_s, what, rank)
