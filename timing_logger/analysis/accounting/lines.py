"""Find the lines of control of each process, and the calls in which each of them is blocked.

A line is a thread, or a stream of a device. Most processes have one that is blocked in communication. Where
several are, each has an account of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import (
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
from timing_logger.analysis.rows.grouping import any_row_of, greatest_of_each, least_of_each
from timing_logger.analysis.rows.intervals import lanes_of, union_lengths
from timing_logger.analysis.rows.operations import (
    BACKEND,
    PROBES,
    base_operation,
    goes_on,
    is_communication,
    is_wait,
    needs_no_other_rank,
)
from timing_logger.results.plain import SET_UP

PROCESS, LINE = "process", "line"
"""Columns with the number of a row's process and line."""


NO_RANK = -1
"""In place of a rank: a line waited for none, or for a transfer between others."""


class AccountLines(NamedTuple):
    """The lines of some processes; one entry per line.

    Attributes:
        process: the number of the line's process.
        rank, incarnation: of that process.
        thread: the thread of the line; for a stream of a device that which used it.
        is_main: whether the line is the one that tells what its process did: the one that was blocked or
            worked longest, of those that were blocked if any was.
        has_account: whether the line has one: the main one of a process, and any other that was blocked.
        begin_s, end_s: from the first row of the process to the end of its last, on its own clock; what only
            the backend measured does not count.
    """

    process: Ints
    rank: Ints
    incarnation: Ints
    thread: list[str]
    is_main: Bools
    has_account: Bools
    begin_s: Floats
    end_s: Floats

    @property
    def wall_ms(self) -> Floats:
        """For how long the process of each line ran, in ms."""
        return 1e3 * (self.end_s - self.begin_s)

    def process_of(self, line: Ints) -> tuple[Ints, Ints]:
        """Return the rank and the incarnation of lines."""
        return in_few_bytes(self.rank)[line], in_few_bytes(self.incarnation)[line]


class Roles(NamedTuple):
    """What each row is for its line; one entry per row.

    Attributes:
        line: the number of the row's line.
        works: whether it is the process's own work.
        holds: whether its line comes to no other call before it ends. That is so, too, in a thread that
            serves another, which waits for it.
        blocks: whether it holds its line, and no other line waits for it.
    """

    line: Ints
    works: Bools
    holds: Bools
    blocks: Bools


def lines_of(frame: Frame, process: Ints) -> tuple[AccountLines, Roles]:
    """Find the lines of a table that ``opened`` returned, and what each row is for its line.

    Args:
        frame: the rows of whole processes.
        process: the number of each row's process, from 0.
    """
    named, lanes = coded_text(frame, "operation"), lanes_of(frame)
    line = dense_codes(process, lanes.lane)
    holds = each_text(named, _holds)
    roles = Roles(line, each_text(named, needs_no_other_rank), holds, holds & ~lanes.in_background)
    return _described(frame, process, roles), roles


def is_set_up(frame: Frame) -> Bools:
    """Tell of each row whether it is of the set-up of communication, as ``MPI_INIT``: no step waits in it."""
    return each_text(coded_text(frame, "operation"), lambda name: base_operation(name) in SET_UP)


def is_kept(name: str) -> bool:
    """Tell whether rows of an operation are needed to tell who waited for whom."""
    return _holds(name) or goes_on(name)


def _holds(name: str) -> bool:
    base = base_operation(name)
    return (is_communication(name) and not goes_on(name)) or is_wait(name) or base in PROBES | SET_UP


def _described(frame: Frame, process: Ints, roles: Roles) -> AccountLines:
    line, any_row = roles.line, any_row_of(roles.line)
    its_process, n_lines = process[any_row], len(any_row)
    told = each_text(coded_text(frame, "operation"), lambda name: base_operation(name) != BACKEND)
    start_s, end_s = (
        np.where(told, numbers(frame, name), np.nan) for name in ("start_counter", "end_counter")
    )
    tells = roles.works | roles.blocks
    length_s = union_lengths(line[tells], start_s[tells], end_s[tells], n_lines)
    is_blocked = np.bincount(line[roles.blocks], minlength=n_lines) > 0
    order = np.lexsort((length_s, is_blocked, its_process))
    is_main = np.zeros(n_lines, np.bool_)
    is_main[order[np.flatnonzero(np.diff(its_process[order], append=-1))]] = True
    thread, threads = coded_text(frame, "thread")
    n = int(process.max(initial=-1)) + 1
    return AccountLines(
        process=its_process,
        rank=frame["rank"].to_numpy()[any_row].astype(np.int64),
        incarnation=frame["incarnation"].to_numpy()[any_row].astype(np.int64),
        thread=[threads[code] for code in thread[any_row]],
        is_main=is_main,
        has_account=is_main | is_blocked,
        begin_s=least_of_each(start_s, process, n)[its_process],
        end_s=greatest_of_each(end_s, process, n)[its_process],
    )


# -- of several parts ------------------------------------------------------------------------------------


# -- put the times in which lines are held one after the other -------------------------------------------


class Holds(NamedTuple):
    """The times in which lines were held, line by line in the order of time; they do not overlap.

    Attributes:
        row: the row of each hold.
        line: its line.
        start_s, end_s: in seconds.
    """

    row: Ints
    line: Ints
    start_s: Floats
    end_s: Floats

    def only(self, wanted: Bools) -> Holds:
        """Return the holds that are ``wanted``."""
        return Holds._make(values[wanted] for values in self)


def holds_of(
    line: Ints, holds: Bools, start_s: Floats, end_s: Floats, until_s: Floats | None = None
) -> Holds:
    """Return the holds of all lines.

    Args:
        line: the line of each row.
        holds: whether the row holds its line.
        start_s, end_s: when each row began and ended, in seconds.
        until_s: until when each row waited, where that is known. Of rows that cover the same time, as those
            of one call that waits for several operations, the one that waited longest holds the line.
    """
    row = np.flatnonzero(holds & (end_s > start_s))
    waited_s = np.zeros(len(row)) if until_s is None else np.nan_to_num(until_s[row], nan=-np.inf)
    row = row[np.lexsort((-waited_s, -end_s[row], start_s[row], line[row]))]
    starts_s, ends_s = apart(line[row], start_s[row], end_s[row])
    found = Holds(row, line[row], starts_s, ends_s)
    return found.only(ends_s > starts_s)


def apart(line: Ints, start_s: Floats, end_s: Floats) -> tuple[Floats, Floats]:
    """Return starts and ends with which the intervals of each line do not overlap.

    None begins before the one before it has ended; of one inside of another, nothing is left.

    Args:
        line: the line of each interval, ascending; those of a line are in the order of their starts.
        start_s, end_s: the intervals, in seconds; none ends before it starts.
    """
    starts_s, ends_s = start_s.copy(), end_s.copy()
    follows = line[1:] == line[:-1]
    overlaps = follows & (start_s[1:] < end_s[:-1])
    for number in np.unique(line[1:][overlaps]).tolist():
        its = slice(*np.searchsorted(line, [number, number + 1]).tolist())
        ends_s[its] = np.maximum.accumulate(end_s[its])
    starts_s[1:] = np.where(follows, np.maximum(start_s[1:], ends_s[:-1]), start_s[1:])
    return starts_s, ends_s


def first_numbers(parts: Sequence[AccountLines]) -> dict[str, Ints]:
    """Return the number of the first process and the first line of each part, by the names of the columns."""
    n_processes = [int(lines.process.max(initial=-1)) + 1 for lines in parts]
    n_lines = [len(lines.process) for lines in parts]
    return {name: np.cumsum([0, *counts[:-1]]) for name, counts in ((PROCESS, n_processes), (LINE, n_lines))}


def joined_lines(parts: Sequence[AccountLines]) -> AccountLines:
    """Join the lines of all parts, and number their processes throughout."""
    first = first_numbers(parts)[PROCESS]
    moved = [lines._replace(process=lines.process + begin) for lines, begin in zip(parts, first, strict=True)]
    thread = [name for lines in parts for name in lines.thread]
    columns = {
        name: np.concatenate([getattr(lines, name) for lines in moved])
        for name in AccountLines._fields
        if name != "thread"
    }
    return AccountLines(thread=thread, **columns)
