"""The nodes of a run's program, in the order of time, and the meetings that they give to and need."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.lines import LINE, PROCESS, AccountLines, apart
from timing_logger.analysis.accounting.loops import Ragged
from timing_logger.analysis.accounting.part import BLOCKS
from timing_logger.analysis.accounting.ties import TiedRows, Ties, needs_of
from timing_logger.analysis.rows.arrays import (
    Bools,
    Floats,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    in_few_bytes,
    numbers,
)
from timing_logger.analysis.rows.grouping import first_above
from timing_logger.analysis.rows.intervals import instants
from timing_logger.analysis.rows.operations import is_communication
from timing_logger.results import criteria

ISSUE, WAIT, END, JOIN = range(4)
"""The kinds of nodes: a line begins something, waits, comes to its end, or joins the run."""


class Lists(NamedTuple):
    """A list of numbers for each of some things: those of the i-th are ``values[at[i]:at[i + 1]]``."""

    at: Ints
    values: Ints

    @classmethod
    def by(cls, owner: Ints, values: Ints, n: int) -> Lists:
        """Return the lists of ``n`` owners."""
        order = np.argsort(owner, kind="stable")
        at = np.searchsorted(owner[order], np.arange(n + 1))
        return cls(in_few_bytes(at), in_few_bytes(values[order]))

    def pairs(self) -> tuple[Ints, Ints]:
        """Return each owner, ascending, with each of its numbers."""
        owner = np.arange(len(self.at) - 1, dtype=self.at.dtype)
        return np.repeat(owner, np.diff(self.at)), self.values

    def ragged(self) -> Ragged:
        """Return the lists for a loop: as one list of numbers, since many small ones take long to make."""
        return self.at.tolist(), self.values.tolist()


class Nodes(NamedTuple):
    """Nodes, as in ``program.Program``; ``begin_s`` is when the line came to the node."""

    line: Ints
    kind: Ints
    row: Ints
    begin_s: Floats
    end_s: Floats


def nodes_of(run: TiedRows, lines: AccountLines) -> tuple[Nodes, Floats]:
    """Return the nodes of a run, line by line in the order of time, and when each line began.

    Args:
        run: its rows of communication.
        lines: its lines of control.
    """
    waits = _waits(run)
    start_s, ends = _ends(run, lines)
    every = zip(waits, _issues(run, waits), ends, strict=True)
    nodes = Nodes._make(np.concatenate(column) for column in every)
    order = np.lexsort((nodes.kind, nodes.begin_s, nodes.line))
    line, kind, row = (in_few_bytes(column)[order] for column in nodes[:3])
    return Nodes(line, kind, row, nodes.begin_s[order], nodes.end_s[order]), start_s


def _waits(run: TiedRows) -> Nodes:
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
    return Nodes(line[row].astype(np.int64), np.full(len(row), WAIT), row, begins_s, ends_s)


def _issues(run: TiedRows, waits: Nodes) -> Nodes:
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
    return Nodes(on, np.full(len(row), ISSUE), row, at_s, at_s)


def _issuing_line(run: TiedRows, line: Ints, blocks: Bools, process: Ints, row: Ints) -> Ints:
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


def _before_any_wait(line: Ints, at_s: Floats, waits: Nodes) -> Floats:
    """Return instants of lines, those within a wait of the line moved to its beginning."""
    found: Floats = at_s.copy()
    if not len(waits.line):
        return found
    begin = np.searchsorted(waits.line, np.arange(int(line.max(initial=-1)) + 2))
    place = first_above(begin, waits.begin_s, line, at_s) - 1  # the last that began until then
    within = (place >= begin[line]) & (waits.end_s[place] > at_s + criteria.SAME_INSTANT_S)
    found[within] = waits.begin_s[place[within]]
    return found


def _ends(run: TiedRows, lines: AccountLines) -> tuple[Floats, Nodes]:
    """Return when each line began, and a node for the end of each process."""
    start_s, _, _ = instants(run.axis.frame)
    process = run.axis.frame[PROCESS].to_numpy().astype(np.int64)
    ahead_s = np.full(int(lines.process.max(initial=-1)) + 1, np.nan)
    ahead_s[process] = start_s - numbers(run.axis.frame, "start_counter")
    begins_s, ends_s = (values + ahead_s[lines.process] for values in (lines.begin_s, lines.end_s))
    line = np.flatnonzero(lines.is_main & ~np.isnan(ends_s))
    none = np.full(len(line), -1)
    return begins_s, Nodes(line, np.full(len(line), END), none, ends_s[line], ends_s[line])


def meetings_of(nodes: Nodes, ties: Ties) -> tuple[Lists, Lists]:
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
