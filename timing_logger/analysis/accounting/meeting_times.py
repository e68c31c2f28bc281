"""How long each meeting took once all that it needed had come, as the rows show it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.lines import PROCESS
from timing_logger.analysis.accounting.message_times import links_of, message_times
from timing_logger.analysis.accounting.nodes import Lists
from timing_logger.analysis.accounting.part import BLOCKS
from timing_logger.analysis.accounting.run import TiedRows
from timing_logger.analysis.grouping import least_of_each, quantiles
from timing_logger.analysis.intervals import instants
from timing_logger.analysis.table_types import Bools, Floats, Ints


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
