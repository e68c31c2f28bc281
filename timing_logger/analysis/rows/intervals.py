"""When rows began and ended, and lengths of unions and intersections of intervals, for many owners at once.

All starts and ends are visited in order of time; between two of them nothing changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import coded_text, each_text, numbers
from timing_logger.analysis.rows.grouping import first_above, greatest_of_each, least_of_each, order_by, sums
from timing_logger.analysis.rows.operations import goes_on
from timing_logger.analysis.rows.table_types import Bools, Floats, Frame, Ints


class OpenPieces(NamedTuple):
    """Pieces of time in which the open intervals of one owner stay the same; one entry per piece.

    Attributes:
        owner: number of the owner.
        start_s, end_s: start and end of the piece, in seconds.
        is_open: for each kind an array that tells whether an interval of that kind is open.
    """

    owner: Ints
    start_s: Floats
    end_s: Floats
    is_open: list[Bools]

    def length_s(self, wanted: Bools, n_owners: int) -> Floats:
        """Return for each owner the length of the stretches that are ``wanted``, in seconds."""
        lengths = (self.end_s - self.start_s)[wanted]
        return np.bincount(self.owner[wanted], lengths, minlength=n_owners).astype(np.float64)


def stretches(owner: Ints, starts: Floats, ends: Floats, kind: Ints, n_kinds: int) -> OpenPieces:
    """Return the stretches between all starts and ends of each owner.

    Stretches in which nothing is open may be missing. Intervals that do not end after they start, or whose
    instants are unknown, are left out.

    Args:
        owner: for each interval the number of its owner.
        starts, ends: the intervals, in seconds.
        kind: for each interval its kind, from 0 to ``n_kinds`` - 1.
        n_kinds: the number of kinds.
    """
    whole = np.flatnonzero(ends > starts)
    order = whole[order_by(owner[whole], starts[whole])]
    owner, starts, ends, kind = owner[order], starts[order], ends[order], kind[order]
    if not _overlapping(owner, starts, ends).any():  # the intervals are the stretches
        return OpenPieces(owner, starts, ends, [kind == k for k in range(n_kinds)])
    owner, kind = np.tile(owner, 2), np.tile(kind, 2)
    instants = np.concatenate([starts, ends])
    change = np.repeat([1, -1], len(instants) // 2)
    order = order_by(owner, instants)
    owner, instants, kind, change = owner[order], instants[order], kind[order], change[order]
    # The last instant of an owner closes all that is open, so none reaches into the next one's.
    is_open = [np.cumsum(np.where(kind == k, change, 0))[:-1] > 0 for k in range(n_kinds)]
    return OpenPieces(owner[:-1], instants[:-1], instants[1:], is_open)


def union_lengths(owner: Ints, starts: Floats, ends: Floats, n_owners: int) -> Floats:
    """Return for each owner the length of the union of its intervals, in the unit of the intervals."""
    whole = ends > starts
    if not whole.all():
        owner, starts, ends = owner[whole], starts[whole], ends[whole]
    overlaps = has_overlaps(owner, starts, ends, n_owners)
    # Where one interval follows the other, as most do, their lengths are simply added.
    lengths = sums(np.where(overlaps[owner], 0.0, ends - starts), owner, n_owners)
    if overlaps.any():
        rows = np.flatnonzero(overlaps[owner])
        pieces = stretches(owner[rows], starts[rows], ends[rows], np.zeros(len(rows), np.int64), 1)
        lengths = lengths + pieces.length_s(pieces.is_open[0], n_owners)
    return lengths


class Union(NamedTuple):
    """The unions of the intervals of owners; one entry for each piece, in the order of owners and time.

    Attributes:
        begin: where the pieces of each owner begin, and at last the number of all.
        start_s: when the piece begins.
        length_s: how long it is.
        before_s: how long those before it are.
    """

    begin: Ints
    start_s: Floats
    length_s: Floats
    before_s: Floats

    @classmethod
    def of(cls, owner: Ints, starts: Floats, ends: Floats, n_owners: int) -> Union:
        """Unite the intervals ``[starts[i], ends[i]]`` in s of each owner, a number from 0."""
        pieces = stretches(owner, starts, ends, np.zeros(len(owner), np.int64), 1)
        counts = pieces.is_open[0] & (pieces.end_s > pieces.start_s)
        length_s = (pieces.end_s - pieces.start_s)[counts]
        begin = np.searchsorted(pieces.owner[counts], np.arange(n_owners + 1))
        return cls(begin, pieces.start_s[counts], length_s, np.cumsum(length_s) - length_s)

    def within_s(self, owner: Ints, since_s: Floats, until_s: Floats) -> Floats:
        """Return how much of each span of an owner its union covers, in seconds."""
        return self._until_s(owner, until_s) - self._until_s(owner, since_s)

    def _until_s(self, owner: Ints, instants_s: Floats) -> Floats:
        """Return how long the pieces of an owner and those before it are up to an instant, in seconds."""
        start_s, length_s = np.append(self.start_s, 0.0), np.append(self.length_s, 0.0)
        before_s = np.append(self.before_s, self.length_s.sum())
        at = first_above(self.begin, self.start_s, owner, instants_s) - 1
        up_to_s = before_s[at] + np.minimum(instants_s - start_s[at], length_s[at])
        return np.where(at >= self.begin[owner], up_to_s, before_s[self.begin[owner]])


def has_overlaps(owner: Ints, starts: Floats, ends: Floats, n_owners: int) -> Bools:
    """Tell for each owner whether some of its intervals overlap."""
    order = order_by(owner, starts)
    overlapping = _overlapping(owner[order], starts[order], ends[order])
    found = np.zeros(n_owners, np.bool_)
    found[owner[order[1:]][overlapping]] = True
    return found


def _overlapping(owner: Ints, starts: Floats, ends: Floats) -> Bools:
    """Tell for each interval but the first whether the one before, of the same owner, has not ended."""
    overlapping: Bools = (starts[1:] < ends[:-1]) & (owner[1:] == owner[:-1])
    return overlapping


def union_length(starts: Floats, ends: Floats) -> float:
    """Return the length of the union of the intervals ``[starts[i], ends[i]]``, in any order."""
    return float(union_lengths(np.zeros(len(starts), np.int64), starts, ends, 1)[0])


def instants(frame: Frame) -> tuple[Floats, Floats, Floats]:
    """Return ``start_s``, ``end_s`` and ``clock_uncertainty_s`` of each row, in seconds.

    A table without these columns gives the ranks' own counters as if they were on one time axis, and an
    unknown uncertainty (NaN).
    """
    unknown = np.full(len(frame), np.nan)
    if not {"start_s", "end_s"} <= set(frame.columns):
        return numbers(frame, "start_counter"), numbers(frame, "end_counter"), unknown
    has_uncertainty = "clock_uncertainty_s" in frame.columns
    uncertainty = numbers(frame, "clock_uncertainty_s") if has_uncertainty else unknown
    return numbers(frame, "start_s"), numbers(frame, "end_s"), uncertainty


def covers_issue_alone(frame: Frame) -> Bools:
    """Tell for each row whether it covers only the call that issued a non-blocking operation.

    The timed communicators and process groups see such operations end, and number them. A row without
    ``seq`` was timed by hand around the call, and the operation goes on after it.
    """
    in_background = each_text(coded_text(frame, "operation"), goes_on)
    return in_background & np.isnan(numbers(frame, "seq"))


def durations_ms(frame: Frame) -> Floats:
    """Return how long the operation of each row took, in ms; NaN where the row covers only its issue."""
    return np.where(covers_issue_alone(frame), np.nan, numbers(frame, "elapsed_ms"))


def wall_times_s(frame: Frame, process: Ints) -> Floats:
    """Return the time from the first start of each process to its last end, in seconds; NaN if unknown.

    Args:
        frame: a table that ``opened`` returned.
        process: for each row the number of its process, from 0.
    """
    n_processes = process.max(initial=-1) + 1
    last_s = greatest_of_each(numbers(frame, "end_counter"), process, n_processes)
    return last_s - least_of_each(numbers(frame, "start_counter"), process, n_processes)
