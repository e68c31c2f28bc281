"""The program of a run: what each line did one after the other, and what it had to wait for.

A node is an instant at which a line begins something that others may need, or a time in which it waits. A
blocking call is both, one after the other. Between nodes a line is on its own account. Played again with what
was recorded, a program lasts as long as the run did; with other times of its lines, as long as it would have.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.holds import apart
from timing_logger.analysis.accounting.lines import LINE, PROCESS, Lines, is_set_up
from timing_logger.analysis.accounting.loops import Ragged, ranked
from timing_logger.analysis.accounting.meeting_times import Done, meeting_times
from timing_logger.analysis.accounting.part import BLOCKS
from timing_logger.analysis.accounting.run import BlockedRows
from timing_logger.analysis.accounting.ties import Ties, needs_of
from timing_logger.analysis.grouping import rows_of_each
from timing_logger.analysis.instants import instants
from timing_logger.analysis.operations import base_operation, is_communication
from timing_logger.analysis.tables import (
    Bools,
    Floats,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    numbers,
    renamed,
)

ISSUE, WAIT, END = range(3)
"""The kinds of nodes: a line begins something, waits, or comes to its end."""

_SAME_S = 1e-6  # instants this close are one: rows of calls that follow each other overlap by rounding


class Lists(NamedTuple):
    """A list of numbers for each of some things: those of the i-th are ``values[at[i]:at[i + 1]]``."""

    at: Ints
    values: Ints

    @classmethod
    def by(cls, owner: Ints, values: Ints, n: int) -> Lists:
        """Return the lists of ``n`` owners."""
        order = np.argsort(owner, kind="stable")
        return cls(np.searchsorted(owner[order], np.arange(n + 1)), values[order])

    def ragged(self) -> Ragged:
        """Return the lists for a loop: as one list of numbers, since many small ones take long to make."""
        return self.at.tolist(), self.values.tolist()


class Program(NamedTuple):
    """The program of a run; one entry per node, line by line in the order of time, unless it says otherwise.

    Attributes:
        line: the line.
        kind: ``ISSUE``, ``WAIT`` or ``END``.
        row: the row of communication; -1 for ``END``.
        step: the position of the node's step.
        own_s: how long the line was on its own account since the node before, in seconds.
        late_s: how much later a wait was left than it could have been.
        end_s: when the node was left, as recorded.
        gives, needs: the meetings to which it gives, and those that it needs.
        done: the times of the meetings.
        start_s: for each line when it began.
        unknown_s: for each line how long it was in calls of which it is unknown for whom it waited.
        n_steps: the number of steps.
        rank: a number that is greater than those of all nodes and meetings before it; nodes of one rank are
            of different lines.
        n_forced: the number of nodes that had to come before something that they need, as the rows contradict
            each other.
    """

    line: Ints
    kind: Ints
    row: Ints
    step: Ints
    own_s: Floats
    late_s: Floats
    end_s: Floats
    gives: Lists
    needs: Lists
    done: Done
    start_s: Floats
    unknown_s: Floats
    n_steps: int
    rank: Ints
    n_forced: int


class _Nodes(NamedTuple):
    """Nodes in any order, as in :class:`Program`; ``begin_s`` is when the line came to the node."""

    line: Ints
    kind: Ints
    row: Ints
    begin_s: Floats
    end_s: Floats


def program_of(run: BlockedRows, lines: Lines, step: Floats, n_steps: int) -> Program:
    """Return the program of a run.

    Args:
        run: its rows of communication.
        lines: its lines of control.
        step: for each row the position of its step; NaN outside of any step.
        n_steps: the number of steps, at least one.
    """
    waits = _waits(run)
    issues = _issues(run, waits)
    start_s, ends = _ends(run, lines)
    nodes = _Nodes._make(np.concatenate(column) for column in zip(waits, issues, ends, strict=True))
    order = np.lexsort((nodes.kind, nodes.begin_s, nodes.line))
    nodes = _Nodes._make(column[order] for column in nodes)
    gives, needs = _lists(nodes, run.ties)
    done = meeting_times(run, nodes.end_s, gives, needs)
    is_first: Bools = np.diff(nodes.line, prepend=-1) != 0
    before_s = np.where(is_first, start_s[nodes.line], np.roll(nodes.end_s, 1))
    own_s = np.maximum(nodes.begin_s - before_s, 0.0)
    late_s = _late_s(nodes, needs, done)
    ranks, ranks_of_meetings, n_forced = ranked(
        nodes.line.tolist(), gives.ragged(), needs.ragged(), done.before.tolist(), nodes.end_s.tolist()
    )
    done = done._replace(rank=np.array(ranks_of_meetings, np.int64))
    unknown_s = _unknown_s(nodes, run, late_s, len(start_s))
    return Program(
        nodes.line, nodes.kind, nodes.row, _steps(nodes, step), own_s, late_s, nodes.end_s, gives, needs,
        done, start_s, unknown_s, n_steps, np.array(ranks, np.int64), n_forced,
    )  # fmt: skip


def calls_of(program: Program, run: BlockedRows) -> Ints:
    """Return for each node a number of what is called: its kind, operation and number of ranks."""
    frame = run.axis.frame
    operation, _ = renamed(coded_text(frame, "operation"), base_operation)
    size = numbers(frame, "group_size")
    has_row = program.row >= 0
    of_row = np.where(has_row, program.row, 0)
    if not len(frame):
        return program.kind
    return dense_codes(
        program.kind, np.where(has_row, operation[of_row], -1), np.where(has_row, size[of_row], np.nan)
    )


def _waits(run: BlockedRows) -> _Nodes:
    """Return a node for each row that blocked its line.

    Of rows that cover the same time, as those of one call that waits for several operations, the one that
    waited longest comes first, and so has the time.
    """
    start_s, end_s, _ = instants(run.axis.frame)
    line, blocks = (run.axis.frame[name].to_numpy() for name in (LINE, BLOCKS))
    row = np.flatnonzero(blocks & (end_s >= start_s))
    until_s = np.nan_to_num(needs_of(run.ties, start_s).until_s[row], nan=-np.inf)
    row = row[np.lexsort((-until_s, -end_s[row], start_s[row], line[row]))]
    begins_s, ends_s = apart(line[row].astype(np.int64), start_s[row], end_s[row])
    return _Nodes(line[row].astype(np.int64), np.full(len(row), WAIT), row, begins_s, ends_s)


def _issues(run: BlockedRows, waits: _Nodes) -> _Nodes:
    """Return a node for each row that others may need to have come, as any but a ``WAIT``.

    What begins while its line waits, as in a call that does several things, or in a thread that serves
    another, is taken to begin when the wait does.
    """
    start_s, _, _ = instants(run.axis.frame)
    line, blocks, process = (
        run.axis.frame[name].to_numpy().astype(np.int64) for name in (LINE, BLOCKS, PROCESS)
    )
    begins = each_text(coded_text(run.axis.frame, "operation"), is_communication)
    row = np.flatnonzero(begins & ~np.isnan(start_s))
    on = _issuing_line(run, line, blocks > 0, process, row)
    at_s = _before_any_wait(on, start_s[row], waits)
    return _Nodes(on, np.full(len(row), ISSUE), row, at_s, at_s)


def _issuing_line(run: BlockedRows, line: Ints, blocks: Bools, process: Ints, row: Ints) -> Ints:
    """Return the line that begins each row: of one in the background the line that waits for it."""
    ties = run.ties
    waiting = ties.needs & blocks[ties.row] & ~ties.gives
    key = dense_codes(ties.meeting, process[ties.row])
    waits_on = np.full(int(key.max(initial=-1)) + 1, -1)
    waits_on[key[waiting]] = line[ties.row[waiting]]
    by_row = np.full(len(line), -1)
    by_row[ties.row] = waits_on[key]
    has_calls = np.bincount(line[blocks], minlength=int(line.max(initial=-1)) + 1) > 0
    main = np.full(int(process.max(initial=-1)) + 1, -1)
    main[process[blocks]] = line[blocks]
    elsewhere = np.where(
        has_calls[line[row]], line[row], np.where(main[process[row]] >= 0, main[process[row]], line[row])
    )
    return np.where(blocks[row], line[row], np.where(by_row[row] >= 0, by_row[row], elsewhere))


def _before_any_wait(line: Ints, at_s: Floats, waits: _Nodes) -> Floats:
    """Return instants of lines, those within a wait of the line moved to its beginning."""
    found: Floats = at_s.copy()
    first = np.searchsorted(
        waits.line, np.arange(int(max(line.max(initial=0), waits.line.max(initial=0))) + 2)
    )
    groups = rows_of_each(line) if len(line) else iter(())
    for rows in groups:
        here = np.arange(len(line))[rows]
        if not len(here):
            continue
        begin, end = first[line[here[0]]], first[line[here[0]] + 1]
        if begin == end:
            continue
        place = begin + np.searchsorted(waits.begin_s[begin:end], at_s[here], side="right") - 1
        within = (place >= begin) & (waits.end_s[place] > at_s[here] + _SAME_S)
        found[here[within]] = waits.begin_s[place[within]]
    return found


def _ends(run: BlockedRows, lines: Lines) -> tuple[Floats, _Nodes]:
    """Return when each line began, and a node for the end of each process."""
    start_s, _, _ = instants(run.axis.frame)
    process = run.axis.frame[PROCESS].to_numpy().astype(np.int64)
    ahead_s = np.full(int(lines.process.max(initial=-1)) + 1, np.nan)
    ahead_s[process] = start_s - numbers(run.axis.frame, "start_counter")
    begins_s, ends_s = (values + ahead_s[lines.process] for values in (lines.begin_s, lines.end_s))
    line = np.flatnonzero(lines.is_main & ~np.isnan(ends_s))
    none = np.full(len(line), -1)
    return begins_s, _Nodes(line, np.full(len(line), END), none, ends_s[line], ends_s[line])


def _lists(nodes: _Nodes, ties: Ties) -> tuple[Lists, Lists]:
    """Return the meetings to which each node gives, and those that it needs."""
    found = []
    for kind, wanted in ((ISSUE, ties.gives), (WAIT, ties.needs)):
        here = np.flatnonzero(nodes.kind == kind)
        node_of_row = np.full(int(max(ties.row.max(initial=-1), nodes.row.max(initial=-1))) + 1, -1)
        node_of_row[nodes.row[here]] = here
        node = node_of_row[ties.row[wanted]]
        meeting = ties.meeting[wanted][node >= 0]
        found.append(Lists.by(node[node >= 0], meeting, len(nodes.line)))
    return found[0], found[1]


def _late_s(nodes: _Nodes, needs: Lists, done: Done) -> Floats:
    node = np.repeat(np.arange(len(nodes.line)), np.diff(needs.at))
    could_s = nodes.begin_s.copy()
    np.maximum.at(could_s, node, done.at_s[needs.values])
    return np.where(nodes.kind == WAIT, np.maximum(nodes.end_s - could_s, 0.0), 0.0)


def _unknown_s(nodes: _Nodes, run: BlockedRows, late_s: Floats, n_lines: int) -> Floats:
    is_known = np.append(is_set_up(run.axis.frame), True)  # the last stands for no row
    is_known[run.ties.row] = True
    unknown = (nodes.kind == WAIT) & ~is_known[nodes.row]
    return np.bincount(nodes.line[unknown], late_s[unknown], minlength=n_lines).astype(np.float64)


def _steps(nodes: _Nodes, step: Floats) -> Ints:
    """Return the position of each node's step; outside of any step that of the node before on its line."""
    own = np.where(nodes.row >= 0, step[nodes.row] if len(step) else np.nan, np.nan)
    place = np.arange(len(own))
    known = ~np.isnan(own)
    before = np.maximum.accumulate(np.where(known, place, -1))
    after = np.minimum.accumulate(np.where(known, place, len(own))[::-1])[::-1]
    has_before = (before >= 0) & (nodes.line[before] == nodes.line)
    has_after = (
        (after < len(own)) & (nodes.line[np.minimum(after, len(own) - 1)] == nodes.line)
        if len(own)
        else known
    )
    from_ = np.where(has_before, before, np.where(has_after, after, -1))
    return np.where(from_ >= 0, np.nan_to_num(own[from_]), 0.0).astype(np.int64)
