"""The account of a run: how each line of control spent its time, and for whom it waited.

The rows of communication of all processes are matched, and the time in which they blocked lines is divided:
waiting, for whom, and transfers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import narwhals as nw
import numpy as np
import pandas as pd

from timing_logger.analysis.accounting.axis import on_one_axis
from timing_logger.analysis.accounting.lines import (
    LINE,
    NO_RANK,
    PROCESS,
    AccountLines,
    first_numbers,
    holds_of,
    joined_lines,
)
from timing_logger.analysis.accounting.loops import UNKNOWN, origins
from timing_logger.analysis.accounting.part import (
    BLOCKED,
    BLOCKS,
    HOLDS,
    PLACE,
    AccountPart,
    CommunicationPart,
    LineStretches,
    Spent,
)
from timing_logger.analysis.accounting.ties import Meetings, OneAxis, TiedRows, needs_of, ties_of
from timing_logger.analysis.collectives.matching import find_instances
from timing_logger.analysis.collectives.messages import find_messages
from timing_logger.analysis.collectives.problems import Problem, find_problems
from timing_logger.analysis.rows.analysis import RUN_OF_RANK
from timing_logger.analysis.rows.arrays import Bools, Floats, Frame, Ints, coded_text, in_few_bytes, numbers
from timing_logger.analysis.rows.files import File, runs_of
from timing_logger.analysis.rows.grouping import any_row_of
from timing_logger.analysis.rows.intervals import instants
from timing_logger.analysis.rows.tables import new_column
from timing_logger.reading.named_ranks import stated_world_size
from timing_logger.reading.sources import compact, joined

TRANSFER, WAITING, NOT_MATCHED = range(3)
"""What a line that was blocked did in a stretch of time."""

_WHOLE_NUMBERS = ("row", "instance", "communicator", "rank", "operation", "step")


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
    ranks = np.unique(lines.rank)
    counted = len(ranks) if np.array_equal(ranks, np.arange(len(ranks))) else None
    tied = tied_rows(met(rows, lines, None, stated_world_size(files) or counted))
    return AccountOfRun(lines, spent_of(parts), tied, blocked_in(tied))


def joined_rows(parts: Sequence[CommunicationPart]) -> tuple[Frame, AccountLines]:
    """Join the rows and lines of all parts, and number their processes and lines throughout.

    Args:
        parts: as ``map_communication`` returned them, in ascending order of their processes; they lose their
            rows.
    """
    lines = joined_lines([part.lines for part in parts])
    if len(parts) == 1:
        return nw.from_native(parts[0].rows.pop(), eager_only=True), lines
    first = first_numbers([part.lines for part in parts])
    # Of other libraries than pandas all rows are one part.
    tables = (compact(cast("pd.DataFrame", part.rows.pop())) for part in parts)
    moved = [
        {str(name): small[name] + first[name][i] if name in first else small[name] for name in small}
        for i, small in enumerate(tables)
    ]
    return nw.from_native(joined(moved, list(moved[0])), eager_only=True), lines


def met(rows: Frame, lines: AccountLines, step: Floats | None, world_size: int | None) -> Meetings:
    """Match the rows of communication.

    Args:
        rows: as :func:`joined_rows` returned them.
        lines: the lines of all processes.
        step: for each row the number of its step, by which collectives without a number are matched; NaN
            outside of any step. None to take the steps that the rows state.
        world_size: the number of ranks in the run; None if unknown.
    """
    one = any_row_of(lines.process)
    run_of = runs_of(lines.rank[one], lines.incarnation[one])
    frame = rows.with_columns(
        new_column(rows, RUN_OF_RANK, run_of[rows[PROCESS].to_numpy().astype(np.int64)])
    )
    found = find_instances(frame, step)
    problems = find_problems(frame, found)
    usable = ((problems & ~Problem.MISSING) == 0) & (found.n_parts >= 2)
    messages = find_messages(frame, world_size, exchanges=True)
    parts = found.only(usable)
    small: dict[str, Any] = {name: in_few_bytes(getattr(parts, name)) for name in _WHOLE_NUMBERS}
    return Meetings(frame, parts._replace(**small), problems[usable] == 0, messages)


def steps_by_place(rows: Frame, steps: Ints, n_steps: Ints) -> Floats:
    """Return the number of each row's step; NaN outside of any step, and for processes without.

    Args:
        rows: as :func:`joined_rows` returned them.
        steps: the numbers of the steps of all processes, in the order of these.
        n_steps: for each process the number of its steps.
    """
    process, place = (rows[name].to_numpy().astype(np.int64) for name in (PROCESS, PLACE))
    first = np.cumsum(n_steps) - n_steps
    inside = (place >= 0) & (place < n_steps[process])
    found = np.full(len(place), np.nan)
    found[inside] = steps[(first[process] + place)[inside]]
    return found


def tied_rows(meetings: Meetings) -> TiedRows:
    """Tell what rows of communication waited for."""
    frame = meetings.frame
    axis = on_one_axis(frame, frame[PROCESS].to_numpy(), meetings.parts, meetings.messages)
    ties = ties_of(axis.frame, meetings.parts, meetings.messages)
    needs, clocks = needs_of(ties, instants(axis.frame)[0]), axis.clocks
    # Until when a row waited is unknown where no clocks tell it.
    other = (needs.row >= 0) & (clocks != clocks[needs.row]) if len(clocks) else needs.row >= 0
    needs = needs._replace(until_s=np.where(other, np.nan, needs.until_s))
    return TiedRows(meetings, axis, ties, needs)


def blocked_in(rows: TiedRows) -> Blocked:
    """Divide the time in which rows of communication blocked lines."""
    line, holds, blocks = (rows.met.frame[name].to_numpy() for name in (LINE, HOLDS, BLOCKS))
    line, (start_s, end_s, _) = line.astype(np.int64), instants(rows.axis.frame)
    found = holds_of(line, holds, start_s, end_s, rows.needs.until_s)
    until_s, by = rows.needs.until_s[found.row], rows.needs.row[found.row]
    needed = np.where(by >= 0, line[by], -1)
    first = np.searchsorted(found.line, np.arange(int(line.max(initial=-1)) + 2))
    waits_until_s = np.minimum(np.where(np.isnan(until_s), found.start_s, until_s), found.end_s)
    order = np.argsort(waits_until_s, kind="stable")
    hold, begins_s, ends_s, leads_to = origins(
        first, found.start_s, found.end_s, until_s, needed, order, blocks[found.row]
    )
    waits = begins_s < until_s[hold]
    is_known = (leads_to != UNKNOWN) & (waits | _are_whole(rows)[found.row[hold]])
    what = np.where(is_known, np.where(waits, WAITING, TRANSFER), NOT_MATCHED)
    rank_of_line = np.full(len(first), NO_RANK)
    rank_of_line[line] = rows.met.frame["rank"].to_numpy()
    rank = np.where(waits & (leads_to >= 0), rank_of_line[leads_to], NO_RANK)
    row, what, rank = (in_few_bytes(values) for values in (found.row[hold], what, rank))
    return Blocked(row, begins_s, ends_s, what, rank)


def _are_whole(rows: TiedRows) -> Bools:
    """Tell for each row whether all ranks of what it meets in have rows."""
    ties, is_whole = rows.ties, rows.met.is_whole
    found = np.ones(len(rows.met.frame), np.bool_)
    of_collectives = ties.meeting < len(is_whole)
    found[ties.row[of_collectives]] = is_whole[ties.meeting[of_collectives]]
    return found


def spent_of(parts: Sequence[AccountPart]) -> list[tuple[Spent, int]]:
    """Return how lines spent the time in which they were not blocked, as in :class:`AccountOfRun`."""
    first = first_numbers([part.communication.lines for part in parts])[LINE].tolist()
    return list(zip((part.spent for part in parts), first, strict=True))


# -- stretch by stretch ------------------------------------------------------------------------------------


class BlockedStretches(NamedTuple):
    """The stretches in which processes were blocked in communication.

    Attributes:
        stretches: what they did in them.
        ahead_s: by how much the common time axis is ahead of the clock of the process, in seconds.
        axis: which of several axes that is, where some clocks could not be compared with others.
    """

    stretches: LineStretches
    ahead_s: Floats
    axis: Ints


def blocked_stretches(lines: AccountLines, axis: OneAxis, blocked: Blocked) -> BlockedStretches:
    """Return the stretches in which processes were blocked.

    Args:
        lines: the lines of all processes.
        axis: the rows of communication, as ``tied_rows`` returned them.
        blocked: what lines did in these.
    """
    line = axis.frame[LINE].to_numpy()[blocked.row]
    told = lines.is_main[line]
    line, row = line[told], blocked.row[told]
    ahead_s = (instants(axis.frame)[0] - numbers(axis.frame, "start_counter"))[row]
    code, names = coded_text(axis.frame, "operation")
    found = LineStretches(
        *lines.process_of(line), blocked.start_s[told] - ahead_s, blocked.end_s[told] - ahead_s,
        what=(blocked.what[told] + BLOCKED).astype(np.int8), operation=in_few_bytes(code)[row],
        waited_for=blocked.rank[told], operations=names,
    )  # fmt: skip
    return BlockedStretches(found, ahead_s, in_few_bytes(axis.clocks)[row])
