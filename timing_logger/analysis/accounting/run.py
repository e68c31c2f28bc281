"""The account of a run: how each line of control spent its time, and for whom it waited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import narwhals as nw
import numpy as np
import pandas as pd

from timing_logger.analysis.accounting.axis import OneAxis, on_one_axis
from timing_logger.analysis.accounting.blocked import Blocked, blocked_times
from timing_logger.analysis.accounting.lines import LINE, PROCESS, AccountLines, first_numbers, joined_lines
from timing_logger.analysis.accounting.part import BLOCKS, HOLDS, PLACE, AccountPart, CommunicationPart, Spent
from timing_logger.analysis.accounting.ties import Needs, Ties, needs_of, ties_of
from timing_logger.analysis.collectives.matching import Instances, find_instances
from timing_logger.analysis.collectives.messages import Messages, find_messages
from timing_logger.analysis.collectives.problems import Problem, find_problems
from timing_logger.analysis.rows.analysis import RUN_OF_RANK
from timing_logger.analysis.rows.arrays import Bools, Floats, Frame, Ints, in_few_bytes
from timing_logger.analysis.rows.files import File, runs_of
from timing_logger.analysis.rows.grouping import any_row_of
from timing_logger.analysis.rows.intervals import instants
from timing_logger.analysis.rows.tables import new_column
from timing_logger.reading.named_ranks import stated_world_size
from timing_logger.reading.sources import compact, joined


class Meetings(NamedTuple):
    """The rows of communication of a run, and what they are parts of.

    Attributes:
        frame: the table of rows, with the columns that ``part.map_communication`` adds; processes and lines
            are numbered throughout.
        parts: the collectives of which two ranks or more have rows that fit.
        is_whole: for each of these whether all ranks have.
        messages: the messages of which both rows are known.
    """

    frame: Frame
    parts: Instances
    is_whole: Bools
    messages: Messages


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
    return Meetings(frame, _in_few_bytes(found.only(usable)), problems[usable] == 0, messages)


def _in_few_bytes(parts: Instances) -> Instances:
    return parts._replace(
        row=in_few_bytes(parts.row),
        instance=in_few_bytes(parts.instance),
        communicator=in_few_bytes(parts.communicator),
        rank=in_few_bytes(parts.rank),
        operation=in_few_bytes(parts.operation),
        step=in_few_bytes(parts.step),
    )


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
