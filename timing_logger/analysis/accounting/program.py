"""The program of a run: what each line did one after the other, and what it had to wait for.

A node is an instant at which a line begins something that others may need, or a time in which it waits. A
blocking call is both, one after the other. Between nodes a line is on its own account. Played again with what
was recorded, a program lasts as long as the run did; with other times of its lines, as long as it would have.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.lines import PROCESS, AccountLines, is_set_up
from timing_logger.analysis.accounting.nodes import JOIN, WAIT, Lists, Nodes, meetings_of, nodes_of
from timing_logger.analysis.accounting.part import BLOCKS
from timing_logger.analysis.accounting.ties import OneAxis, TiedRows, senders_are_held
from timing_logger.analysis.collectives.messages import Messages, blocked_by
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
    renamed,
)
from timing_logger.analysis.rows.grouping import least_of_each, quantiles, size_classes
from timing_logger.analysis.rows.intervals import instants
from timing_logger.analysis.rows.operations import base_operation, goes_on
from timing_logger.results import criteria


class Done(NamedTuple):
    """The times of meetings; one entry per meeting.

    Attributes:
        took_s: how long it took, once all had come that were needed and the one before it was done.
        before: the meeting that comes before it in its group however early all have come; -1 for none. Groups
            do what they have in the background one after the other.
        at_s: when it was done, in seconds.
    """

    took_s: Floats
    before: Ints
    at_s: Floats


def meeting_times(run: TiedRows, end_s: Floats, gives: Lists, needs: Lists) -> Done:
    """Return the times of all meetings of a program.

    Args:
        run: the rows of communication.
        end_s: when each node was left; for one that begins something when it did.
        gives, needs: the meetings to which each node gives, and those that it needs.
    """
    n = 2 * len(run.met.parts.first) + len(run.met.messages.send)  # see Ties.meeting
    giving, needing = (np.repeat(np.arange(len(end_s)), np.diff(lists.at)) for lists in (gives, needs))
    came_s, left_s = np.full(n, -np.inf), np.full(n, np.inf)
    np.maximum.at(came_s, gives.values, end_s[giving])
    np.minimum.at(left_s, needs.values, end_s[needing])
    in_background, ended_s = _in_background(run, n)
    done_s = np.where(in_background & ~np.isnan(ended_s), ended_s, left_s)
    before = _one_after_the_other(run, in_background, done_s)
    came_s = np.where(before >= 0, np.maximum(came_s, done_s[before]), came_s)
    took_s = np.where(np.isfinite(done_s) & np.isfinite(came_s), np.maximum(done_s - came_s, 0.0), 0.0)
    took_s = _at_most_usual(run, took_s)
    at_s = np.where(np.isfinite(came_s), came_s + took_s, -np.inf)
    return Done(took_s, before, at_s)


def _in_background(run: TiedRows, n: int) -> tuple[Bools, Floats]:
    """Tell of each meeting whether it went on beside the lines, and when its rows say that it ended."""
    _, end_s, _ = instants(run.axis.frame)
    beside = ~run.axis.frame[BLOCKS].to_numpy()[run.ties.row]
    meeting, row = run.ties.meeting[beside], run.ties.row[beside]
    ended_s = least_of_each(end_s[row], meeting, n)
    return np.bincount(meeting, minlength=n) > 0, ended_s


def _one_after_the_other(run: TiedRows, in_background: Bools, done_s: Floats) -> Ints:
    """Return for each collective in the background the one before it in its group; -1 for none."""
    parts = run.met.parts
    found = np.full(len(done_s), -1)
    here = np.flatnonzero(in_background[: len(parts.first)])
    if not len(here):
        return found
    communicator = parts.communicator[parts.first[here]]
    order = np.lexsort((done_s[here], communicator))
    here, communicator = here[order], communicator[order]
    follows = communicator[1:] == communicator[:-1]
    found[here[1:][follows]] = here[:-1][follows]
    return found


def _at_most_usual(run: TiedRows, took_s: Floats) -> Floats:
    """Return the times, those of messages whose rows do not show them as their link usually takes at most."""
    messages = run.met.messages
    if not len(messages.send):
        return took_s
    link, n_collectives = links_of(run.axis.frame, messages), len(run.met.parts.first)
    shows = message_times(run.axis, messages, run.axis.frame[PROCESS].to_numpy()).by_itself
    of_messages = took_s[n_collectives : n_collectives + len(link)]
    usual = quantiles(np.where(shows, of_messages, np.nan), link, int(link.max()) + 1, [0.5])[0][link]
    limited = np.where(shows, of_messages, np.minimum(of_messages, np.nan_to_num(usual)))
    return np.concatenate([took_s[:n_collectives], limited, took_s[n_collectives + len(link) :]])


# -- how long each message took, as far as its two rows show it ------------------------------------------
# A message takes from when its sender came, or both sides did if the sender waits for the receiver, until
# the receiver has it. A receiver that comes after a sender that does not wait may find the message there,
# or on its way: then its row does not show how long that took. It does if it takes clearly longer than a
# whole message.


class MessageTimes(NamedTuple):
    """The times of messages; one entry per message.

    Attributes:
        took_s: how long it took, in seconds; NaN where its rows do not show it.
        by_itself: whether they show it since the receiver had come before the message could arrive, or the
            sender waits for the receiver.
    """

    took_s: Floats
    by_itself: Bools


def message_times(axis: OneAxis, messages: Messages, process: Ints) -> MessageTimes:
    """Return how long each message took.

    Args:
        axis: the rows on the time axis of all ranks.
        messages: the messages.
        process: the process of each row.
    """
    send, receive = messages
    start_s, end_s, _ = instants(axis.frame)
    operation = coded_text(axis.frame, "operation")
    exchanges = each_text(operation, lambda name: base_operation(name) == "SENDRECV")
    held = senders_are_held(axis.frame, messages, start_s, end_s) & ~exchanges[send]
    took_s = end_s[receive] - np.maximum(start_s[send], start_s[receive])
    sent_alone, received_alone = _ended_alone(axis.frame, messages, process, end_s)
    sending_s = np.where(sent_alone, end_s[send] - start_s[send], 0.0)
    alone = received_alone | (criteria.LATE_RECEIVER_TIMES * sending_s >= took_s)
    by_itself = alone & (held | (start_s[receive] <= start_s[send]))
    clearly_s = criteria.LATE_RECEIVER_TIMES * _quick_s(took_s, by_itself, links_of(axis.frame, messages))
    is_clear = received_alone & ~exchanges[receive] & (took_s >= clearly_s)
    return MessageTimes(np.where(by_itself | is_clear, took_s, np.nan), by_itself)


def links_of(frame: Frame, messages: Messages) -> Ints:
    """Number the links of messages: equally large ones from one rank to another are of one link."""
    rank = frame["rank"].to_numpy()
    size = size_classes(numbers(frame, "message_size_bytes")[messages.send])
    return dense_codes(rank[messages.send], rank[messages.receive], size)


def _quick_s(took_s: Floats, shows: Bools, link: Ints) -> Floats:
    """Return for each message how long the quick ones of its link take; NaN where none shows it."""
    n_links, which = int(link.max(initial=-1)) + 1, [criteria.QUICK_MESSAGES_QUANTILE]
    return quantiles(np.where(shows, took_s, np.nan), link, n_links, which)[0][link]


def _ended_alone(frame: Frame, messages: Messages, process: Ints, end_s: Floats) -> tuple[Bools, Bools]:
    """Tell of the send and of the receive of each message whether its row shows when it ended.

    What one call waits for ends with it in its rows, and so does what was done while a call before waited for
    another: then it is that other that took as long.
    """
    both = np.concatenate(messages)
    start_s, _, _ = instants(frame)
    beside = each_text(coded_text(frame, "operation"), goes_on)[both]
    _, blocked_ms = blocked_by(frame, both, start_s, end_s, numbers(frame, "elapsed_ms"))
    blocks = beside & (blocked_ms > 1e3 * criteria.SAME_INSTANT_S)
    together = dense_codes(process[both], np.rint(end_s[both] / criteria.SAME_INSTANT_S))
    n, n_blocking = np.bincount(together), np.bincount(together, blocks)
    alone = ~beside | (n[together] == 1) | (blocks & (n_blocking[together] == 1))
    sent, received = np.split(alone, 2)
    return sent, received


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


def with_joins(
    nodes: Nodes, gives: Lists, needs: Lists, done: Done, start_s: Floats
) -> tuple[Nodes, Lists, Lists, Done, Floats]:
    """Let lines that join a run wait for that from its beginning, each in a meeting of its own.

    Args:
        nodes, gives, needs, done, start_s: as those of a ``program.Program``.

    Returns:
        All of these, with the nodes and meetings of the lines that join.
    """
    joining, joined = _joins(nodes, gives, needs, start_s)
    new = np.arange(len(joining))
    if not len(new):
        return nodes, gives, needs, done, start_s
    at_s, begun_s = start_s[joining], np.full(len(new), np.nanmin(start_s))
    none, meeting = np.full(len(new), -1), len(done.took_s) + new
    started = Done(at_s - nodes.end_s[joined], none, at_s)
    done = Done._make(np.concatenate(both) for both in zip(done, started, strict=True))
    place = np.arange(len(nodes.line)) + np.searchsorted(joining, nodes.line, side="right")
    at = np.searchsorted(nodes.line, joining)
    (giving, given), (needing, needed) = gives.pairs(), needs.pairs()
    came = Nodes(joining, np.full(len(new), JOIN), none, begun_s, at_s)
    nodes = Nodes._make(np.insert(old, at, column) for old, column in zip(nodes, came, strict=True))
    start_s = start_s.copy()
    start_s[joining] = begun_s
    n = len(nodes.line)
    gives = Lists.by(np.append(place[giving], place[joined]), np.append(given, meeting), n)
    needs = Lists.by(np.append(place[needing], at + new), np.append(needed, meeting), n)
    return nodes, gives, needs, done, start_s


def _joins(nodes: Nodes, gives: Lists, needs: Lists, start_s: Floats) -> tuple[Ints, Ints]:
    """Return the lines that join a run, and for each the last node that one of those it joins had left then.

    They come to a meeting of others who have met somebody before.
    """
    line = nodes.line
    before, meeting = _before_meetings(line, gives, _has_met(line, needs))
    order = np.lexsort((nodes.end_s[before], meeting))
    before, meeting = before[order], meeting[order]
    comes, come_to = _first_meetings(line, gives, needs)
    at = _last_up_to(meeting, nodes.end_s[before], come_to, start_s[comes])
    return comes[at >= 0], before[at[at >= 0]]


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
