"""Find the lines that join a run that is under way, and what they come after.

Such a line comes when those that it joins are ready for it, as in elastic training: had these been quicker,
it would have come sooner. Where those have met nobody before, they only wait for the line, which comes at its
own time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.meeting_times import Done
from timing_logger.analysis.accounting.nodes import JOIN, Lists, Nodes
from timing_logger.analysis.table_types import Bools, Floats, Ints


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
