"""The account of a run: how each line of control spent its time, and for whom it waited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.axis import on_one_axis
from timing_logger.analysis.accounting.blocked import Blocked, blocked_times
from timing_logger.analysis.accounting.lines import LINE, PROCESS, Lines, first_numbers
from timing_logger.analysis.accounting.meetings import Meetings, joined_rows, met
from timing_logger.analysis.accounting.needs import needs_of
from timing_logger.analysis.accounting.part import BLOCKS, HOLDS, AccountPart, Spent
from timing_logger.analysis.files import File
from timing_logger.analysis.tables import Ints
from timing_logger.reading.lacking import stated_world_size


class AccountOfRun(NamedTuple):
    """The account of a run.

    Attributes:
        lines: the lines of control of all processes.
        spent: for each part how its lines spent the time in which they were not blocked, and the number of
            the first of them.
        met: the rows of communication.
        blocked: what the lines did while these rows blocked them.
        by_rows: whether clocks were compared by what the rows tell.
    """

    lines: Lines
    spent: list[tuple[Spent, int]]
    met: Meetings
    blocked: Blocked
    by_rows: bool


def account_of(parts: Sequence[AccountPart], files: Sequence[File]) -> AccountOfRun:
    """Return the account of a run from the parts of all its processes.

    Args:
        parts: as ``map_account`` returned them, in ascending order of their processes; they lose their rows.
        files: ``attrs["files"]`` of ``read_timings``.
    """
    first = first_numbers([part.lines for part in parts])[LINE].tolist()
    rows, lines = joined_rows(parts)
    meetings = met(rows, lines, None, world_size_of(lines.rank, files))
    spent = list(zip((part.spent for part in parts), first, strict=True))
    return AccountOfRun(lines, spent, meetings, *_blocked(meetings))


def _blocked(meetings: Meetings) -> tuple[Blocked, bool]:
    frame = meetings.frame
    axis = on_one_axis(frame, frame[PROCESS].to_numpy(), meetings.parts, meetings.messages)
    needs = needs_of(axis.frame, meetings.parts, meetings.messages)
    # What could not be placed is compared with nobody. Two lines at least tell that it is not known which.
    needs = needs._replace(until_s=np.where(axis.is_placed, needs.until_s, np.nan))
    axis, line = axis.with_others(frame), 1 + frame[LINE].to_numpy().astype(np.int64)
    return blocked_times(axis, needs, line, frame[HOLDS].to_numpy(), frame[BLOCKS].to_numpy()), axis.by_rows


def world_size_of(rank: Ints, files: Sequence[File]) -> int | None:
    """Return the number of ranks in a run: as sidecars state it, else as the ranks from 0 on are many."""
    ranks = np.unique(rank)
    counted = len(ranks) if np.array_equal(ranks, np.arange(len(ranks))) else None
    return stated_world_size(files) or counted
