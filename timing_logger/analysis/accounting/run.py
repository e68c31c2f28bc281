"""The account of a run: how each line of control spent its time, and for whom it waited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.axis import OneAxis, on_one_axis
from timing_logger.analysis.accounting.blocked import Blocked, blocked_times
from timing_logger.analysis.accounting.lines import LINE, PROCESS, AccountLines, first_numbers
from timing_logger.analysis.accounting.meetings import Meetings, joined_rows, met
from timing_logger.analysis.accounting.part import BLOCKS, HOLDS, AccountPart, Spent
from timing_logger.analysis.accounting.ties import Needs, Ties, needs_of, ties_of
from timing_logger.analysis.rows.files import File
from timing_logger.analysis.rows.intervals import instants
from timing_logger.analysis.rows.table_types import Bools, Ints
from timing_logger.reading.named_ranks import stated_world_size


class TiedRows(NamedTuple):
    """The rows of communication of a run, and what they waited for.

    Attributes:
        met: the rows, and what they are parts of.
        axis: the rows on the time axis of all ranks.
        ties: the ties of rows to what they meet in.
        needs: what the rows waited for.
    """

    met: Meetings
    axis: OneAxis
    ties: Ties
    needs: Needs


class AccountOfRun(NamedTuple):
    """The account of a run.

    Attributes:
        lines: the lines of control of all processes.
        spent: for each part how its lines spent the time in which they were not blocked, and the number of
            the first of them.
        rows: the rows of communication.
        blocked: what the lines did in them.
    """

    lines: AccountLines
    spent: list[tuple[Spent, int]]
    rows: TiedRows
    blocked: Blocked


def account_of(parts: Sequence[AccountPart], files: Sequence[File]) -> AccountOfRun:
    """Return the account of a run from the parts of all its processes.

    Args:
        parts: as ``map_account`` returned them, in ascending order of their processes; they lose their rows.
        files: ``attrs["files"]`` of ``read_timings``.
    """
    rows, lines = joined_rows([part.communication for part in parts])
    tied = tied_rows(met(rows, lines, None, world_size_of(lines.rank, files)))
    return AccountOfRun(lines, spent_of(parts), tied, blocked_in(tied))


def spent_of(parts: Sequence[AccountPart]) -> list[tuple[Spent, int]]:
    """Return how lines spent the time in which they were not blocked, as in :class:`AccountOfRun`."""
    first = first_numbers([part.communication.lines for part in parts])[LINE].tolist()
    return list(zip((part.spent for part in parts), first, strict=True))


def tied_rows(meetings: Meetings) -> TiedRows:
    """Tell what rows of communication waited for."""
    frame = meetings.frame
    axis = on_one_axis(frame, frame[PROCESS].to_numpy(), meetings.parts, meetings.messages)
    ties = ties_of(axis.frame, meetings.parts, meetings.messages)
    needs = _comparable(needs_of(ties, instants(axis.frame)[0]), axis.clocks)
    return TiedRows(meetings, axis, ties, needs)


def blocked_in(rows: TiedRows) -> Blocked:
    """Tell what lines did while rows of communication blocked them."""
    frame = rows.met.frame
    line, holds, blocks = (frame[name].to_numpy() for name in (LINE, HOLDS, BLOCKS))
    is_whole = _whole(rows.met, rows.ties)
    return blocked_times(rows.axis, rows.needs, is_whole, line.astype(np.int64), holds, blocks)


def _comparable(needs: Needs, clocks: Ints) -> Needs:
    """Return what rows waited for, unknown where no clocks tell until when."""
    other = (needs.row >= 0) & (clocks != clocks[needs.row]) if len(clocks) else needs.row >= 0
    return needs._replace(until_s=np.where(other, np.nan, needs.until_s))


def _whole(meetings: Meetings, ties: Ties) -> Bools:
    """Tell for each row whether all ranks of what it meets in have rows."""
    found = np.ones(len(meetings.frame), np.bool_)
    of_collectives = ties.meeting < len(meetings.is_whole)
    found[ties.row[of_collectives]] = meetings.is_whole[ties.meeting[of_collectives]]
    return found


def world_size_of(rank: Ints, files: Sequence[File]) -> int | None:
    """Return the number of ranks in a run: as sidecars state it, else as the ranks from 0 on are many."""
    ranks = np.unique(rank)
    counted = len(ranks) if np.array_equal(ranks, np.arange(len(ranks))) else None
    return stated_world_size(files) or counted
