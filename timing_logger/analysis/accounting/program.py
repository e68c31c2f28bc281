"""The program of a run: what each line did one after the other, and what it had to wait for.

A node is an instant at which a line begins something that others may need, or a time in which it waits. A
blocking call is both, one after the other. Between nodes a line is on its own account. Played again with what
was recorded, a program lasts as long as the run did; with other times of its lines, as long as it would have.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.joining import with_joins
from timing_logger.analysis.accounting.lines import Lines, is_set_up
from timing_logger.analysis.accounting.meeting_times import Done, meeting_times
from timing_logger.analysis.accounting.nodes import WAIT, Lists, Nodes, meetings_of, nodes_of
from timing_logger.analysis.accounting.run import TiedRows
from timing_logger.analysis.arrays import coded_text, dense_codes, in_few_bytes, numbers, renamed
from timing_logger.analysis.operations import base_operation
from timing_logger.analysis.table_types import Bools, Floats, Ints


class Program(NamedTuple):
    """The program of a run; one entry per node, line by line in the order of time, unless it says otherwise.

    Attributes:
        line: the line.
        kind: ``ISSUE``, ``WAIT``, ``END`` or ``JOIN``.
        row: the row of communication; -1 for ``END`` and ``JOIN``.
        step: the position of the node's step.
        own_s: how long the line was on its own account since the node before, in seconds.
        late_s: how much later a wait was left than it could have been.
        end_s: when the node was left, as recorded.
        gives, needs: the meetings to which it gives, and those that it needs.
        done: the times of the meetings.
        start_s: for each line when it began.
        unknown_s: for each line how long it was in calls of which it is unknown for whom it waited.
        n_steps: the number of steps.
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


def program_of(run: TiedRows, lines: Lines, step: Floats, n_steps: int) -> Program:
    """Return the program of a run.

    Args:
        run: its rows of communication.
        lines: its lines of control.
        step: for each row the position of its step; NaN outside of any step.
        n_steps: the number of steps, at least one.
    """
    nodes, start_s = nodes_of(run, lines)
    gives, needs = meetings_of(nodes, run.ties)
    done = meeting_times(run, nodes.end_s, gives, needs)
    nodes, gives, needs, done, start_s = with_joins(nodes, gives, needs, done, start_s)
    is_first: Bools = np.diff(nodes.line, prepend=-1) != 0
    before_s = np.where(is_first, start_s[nodes.line], np.roll(nodes.end_s, 1))
    own_s = np.maximum(nodes.begin_s - before_s, 0.0)
    late_s = _late_s(nodes, needs, done)
    unknown_s = _unknown_s(nodes, run, late_s, len(start_s))
    return Program(
        nodes.line, nodes.kind, nodes.row, _steps(nodes, step), own_s, late_s, nodes.end_s, gives, needs,
        done, start_s, unknown_s, n_steps,
    )  # fmt: skip


def calls_of(program: Program, run: TiedRows) -> Ints:
    """Return for each node a number of what is called: its kind, operation and number of ranks."""
    frame = run.axis.frame
    operation, _ = renamed(coded_text(frame, "operation"), base_operation)
    size = numbers(frame, "group_size")
    has_row = program.row >= 0
    of_row = np.where(has_row, program.row, 0)
    if not len(frame):
        return program.kind
    codes = dense_codes(
        program.kind, np.where(has_row, operation[of_row], -1), np.where(has_row, size[of_row], np.nan)
    )
    return in_few_bytes(codes)


def _late_s(nodes: Nodes, needs: Lists, done: Done) -> Floats:
    node = np.repeat(np.arange(len(nodes.line)), np.diff(needs.at))
    could_s = nodes.begin_s.copy()
    np.maximum.at(could_s, node, done.at_s[needs.values])
    return np.where(nodes.kind == WAIT, np.maximum(nodes.end_s - could_s, 0.0), 0.0)


def _unknown_s(nodes: Nodes, run: TiedRows, late_s: Floats, n_lines: int) -> Floats:
    is_known = np.append(is_set_up(run.axis.frame), True)  # the last stands for no row
    is_known[run.ties.row] = True
    unknown = (nodes.kind == WAIT) & ~is_known[nodes.row]
    return np.bincount(nodes.line[unknown], late_s[unknown], minlength=n_lines).astype(np.float64)


def _steps(nodes: Nodes, step: Floats) -> Ints:
    """Return the position of each node's step; outside of any step that of the node before on its line."""
    own = np.where(nodes.row >= 0, step[nodes.row] if len(step) else np.nan, np.nan)
    known = np.flatnonzero(~np.isnan(own))
    if not len(known):
        return in_few_bytes(np.zeros(len(own), np.int64))
    n_before = np.searchsorted(known, np.arange(len(own)), side="right")
    from_ = known[np.maximum(n_before - 1, 0)]
    lacks = nodes.line[from_] != nodes.line  # nothing before it on its line is of a step, but perhaps after
    from_[lacks] = known[np.minimum(n_before[lacks], len(known) - 1)]
    found = np.where(nodes.line[from_] == nodes.line, own[from_], 0.0)
    return in_few_bytes(found.astype(np.int64))
