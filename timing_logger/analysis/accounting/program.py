"""The program of a run: what each line did one after the other, and what it had to wait for.

A node is an instant at which a line begins something that others may need, or a time in which it waits. A
blocking call is both, one after the other. Between nodes a line is on its own account. Played again with what
was recorded, a program lasts as long as the run did; with other times of its lines, as long as it would have.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.lines import AccountLines, is_set_up
from timing_logger.analysis.accounting.meeting_times import Done, meeting_times
from timing_logger.analysis.accounting.nodes import JOIN, WAIT, Lists, Nodes, meetings_of, nodes_of
from timing_logger.analysis.accounting.run import TiedRows
from timing_logger.analysis.rows.arrays import coded_text, dense_codes, in_few_bytes, numbers, renamed
from timing_logger.analysis.rows.operations import base_operation
from timing_logger.analysis.rows.table_types import Bools, Floats, Ints


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


def program_of(run: TiedRows, lines: AccountLines, step: Floats, n_steps: int) -> Program:
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


# -- find the lines that join a run that is under way, and what they come after --------------------------
# Such a line comes when those that it joins are ready for it, as in elastic training: had these been
# quicker, it would have come sooner. Where those have met nobody before, they only wait for the line, which
# comes at its own time.


class Joins(NamedTuple):
    """The lines that join a run; one entry per line that does.

    Attributes:
        line: the line.
        node: the last node that one of those that it joins had left when it began.
    """

    line: Ints
    node: Ints


def with_joins(
    nodes: Nodes, gives: Lists, needs: Lists, done: Done, start_s: Floats
) -> tuple[Nodes, Lists, Lists, Done, Floats]:
    """Let lines that join a run wait for that from its beginning, each in a meeting of its own.

    Args:
        nodes, gives, needs, done, start_s: as those of a ``program.Program``.

    Returns:
        All of these, with the nodes and meetings of the lines that join.
    """
    joins = _joins(nodes, gives, needs, start_s)
    new = np.arange(len(joins.line))
    if not len(new):
        return nodes, gives, needs, done, start_s
    at_s, begun_s = start_s[joins.line], np.full(len(new), np.nanmin(start_s))
    none, meeting = np.full(len(new), -1), len(done.took_s) + new
    started = Done(at_s - nodes.end_s[joins.node], none, at_s)
    done = Done._make(np.concatenate(both) for both in zip(done, started, strict=True))
    place = np.arange(len(nodes.line)) + np.searchsorted(joins.line, nodes.line, side="right")
    at = np.searchsorted(nodes.line, joins.line)
    (giving, given), (needing, needed) = gives.pairs(), needs.pairs()
    came = Nodes(joins.line, np.full(len(new), JOIN), none, begun_s, at_s)
    nodes = Nodes._make(np.insert(old, at, column) for old, column in zip(nodes, came, strict=True))
    start_s = start_s.copy()
    start_s[joins.line] = begun_s
    n = len(nodes.line)
    gives = Lists.by(np.append(place[giving], place[joins.node]), np.append(given, meeting), n)
    needs = Lists.by(np.append(place[needing], at + new), np.append(needed, meeting), n)
    return nodes, gives, needs, done, start_s


def _joins(nodes: Nodes, gives: Lists, needs: Lists, start_s: Floats) -> Joins:
    """Find the lines that join a run: they come to a meeting of others who have met somebody before."""
    line = nodes.line
    before, meeting = _before_meetings(line, gives, _has_met(line, needs))
    order = np.lexsort((nodes.end_s[before], meeting))
    before, meeting = before[order], meeting[order]
    comes, come_to = _first_meetings(line, gives, needs)
    at = _last_up_to(meeting, nodes.end_s[before], come_to, start_s[comes])
    return Joins(comes[at >= 0], before[at[at >= 0]])


def _before_meetings(line: Ints, gives: Lists, has_met: Bools) -> tuple[Ints, Ints]:
    """Return the node of each line before it gives to a meeting, if it had met somebody, and the meeting."""
    node, meeting = gives.pairs()
    before = node - 1
    counts = (node > 0) & (line[before] == line[node]) & has_met[before]
    return before[counts], meeting[counts]


def _first_meetings(line: Ints, gives: Lists, needs: Lists) -> tuple[Ints, Ints]:
    """Return the lines that meet anybody, and the first meeting of each."""
    both = (gives.pairs(), needs.pairs())
    node, meeting = (np.concatenate(columns) for columns in zip(*both, strict=True))
    order = np.argsort(node, kind="stable")
    lines, first = np.unique(line[node[order]], return_index=True)
    return lines, meeting[order[first]]


def _has_met(line: Ints, needs: Lists) -> Bools:
    """Tell of each node whether its line had waited for another by then."""
    n_waits = np.cumsum(np.diff(needs.at) > 0)
    first = np.searchsorted(line, line)
    earlier: Ints = np.append(0, n_waits)[first]
    return n_waits > earlier


def _last_up_to(group: Ints, values: Floats, of_group: Ints, limit: Floats) -> Ints:
    """Return for each group asked for the place of its last value up to a limit; -1 where there is none.

    Args:
        group: the groups, ascending.
        values: ascending within each group.
        of_group, limit: what is asked for.
    """
    n = len(values)
    order = np.lexsort(
        (np.r_[np.zeros(n), np.ones(len(limit))], np.r_[values, limit], np.r_[group, of_group])
    )
    is_value = order < n
    last = np.cumsum(is_value) - 1
    found = np.empty(n + len(limit), np.int64)
    found[order] = last
    place = found[n:]
    same = (place >= 0) & (group[np.maximum(place, 0)] == of_group) if n else np.zeros(len(limit), np.bool_)
    return np.where(same, place, -1)
