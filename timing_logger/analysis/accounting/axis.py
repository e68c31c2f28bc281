"""Bring the rows of all processes on one time axis, also where nobody measured how clocks compare.

The ranks of a collective that synchronises them leave it together, so its ends tell how far their clocks are
apart: as exactly as the ranks leave it, which is what an account needs. A message tells it where messages go
both ways (Cristian, Probabilistic clock synchronization, 1989).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator

import numpy as np

from timing_logger.analysis.accounting.ties import OneAxis
from timing_logger.analysis.collectives.matching import Instances
from timing_logger.analysis.collectives.messages import Messages
from timing_logger.analysis.rows.arrays import Bools, Floats, Frame, Ints, dense_codes
from timing_logger.analysis.rows.grouping import greatest_of_each
from timing_logger.analysis.rows.intervals import instants
from timing_logger.analysis.rows.operations import SYNCHRONISING
from timing_logger.analysis.rows.tables import new_columns

Offsets = dict[int, dict[int, float]]
"""For each clock, by how many seconds each clock that it was compared with is ahead of it."""


def on_one_axis(frame: Frame, process: Ints, parts: Instances, messages: Messages) -> OneAxis:
    """Return the table with all rows on one time axis, as far as anything tells how the clocks compare.

    Args:
        frame: a table that ``opened`` returned.
        process: the number of each row's process.
        parts: the complete collectives of ``frame``.
        messages: the messages of ``frame`` of which both rows are known.
    """
    start_s, end_s, half_width_s = instants(frame)
    is_aligned = ~np.isnan(half_width_s) & ~_contradicted(frame, process, parts)[process]
    if is_aligned.all():
        return OneAxis(frame, np.zeros(len(frame), np.int64), by_rows=False)
    clock = dense_codes(np.where(is_aligned, -1, process))
    ahead_s, clocks = _ahead(clock, _compared(start_s, end_s, clock, parts, messages))
    known = {"start_s": start_s - ahead_s, "end_s": end_s - ahead_s, "clock_uncertainty_s": 0 * ahead_s}
    return OneAxis(frame.with_columns(*new_columns(frame, known)), clocks, by_rows=True)


def _contradicted(frame: Frame, process: Ints, parts: Instances) -> Bools:
    """Tell of each process whether its clock cannot be as it is stated.

    It cannot if the process mostly left collectives before another rank had come, by more than both clocks
    may be off.
    """
    start_s, end_s, half_width_s = (values[parts.row] for values in instants(frame))
    holds = parts.is_one_of(SYNCHRONISING)
    n = len(parts.first)
    instance = parts.for_parts(np.arange(n))
    last_s = greatest_of_each(start_s - half_width_s, instance, n)[instance]
    left_before = (holds & (end_s + half_width_s < last_s)).astype(np.float64)
    of, n_processes = process[parts.row], int(process.max(initial=-1)) + 1
    violations, calls = (
        np.bincount(of, weight, minlength=n_processes) for weight in (left_before, holds * 1.0)
    )
    return 2 * violations > calls


def _ahead(clock: Ints, compared: Offsets) -> tuple[Floats, Ints]:
    """Return for each row by how much its clock is ahead of the first one that it was compared with.

    Clocks that nothing compares, as those of two runs, stay as they are.

    Returns:
        That, in seconds, and the number of that first clock.
    """
    ahead_s = np.full(clock.max(initial=-1) + 1, np.nan)
    clocks = np.arange(len(ahead_s))
    for first in range(len(ahead_s)):
        if np.isnan(ahead_s[first]):
            ahead_s[first] = 0.0
            reached = deque([first])
            while reached:
                known = reached.popleft()
                for other, further_s in compared.get(known, {}).items():
                    if np.isnan(ahead_s[other]):
                        ahead_s[other], clocks[other] = ahead_s[known] + further_s, first
                        reached.append(other)
    return ahead_s[clock], clocks[clock]


def _compared(start_s: Floats, end_s: Floats, clock: Ints, parts: Instances, messages: Messages) -> Offsets:
    """Return how far clocks are apart that met in collectives, or between which messages went both ways.

    Each rank of a collective is compared with its first.
    """
    synchronises = parts.is_one_of(SYNCHRONISING)
    first, row = parts.for_parts(parts.row[parts.first])[synchronises], parts.row[synchronises]
    by_ends = _by_pair(clock[first], clock[row], end_s[row] - end_s[first])
    found: Offsets = defaultdict(dict)
    for (one, other), ahead_s in (
        *_by_messages(start_s, end_s, clock, messages),
        *((pair, float(np.median(its))) for pair, its in by_ends),
    ):
        found[one][other], found[other][one] = ahead_s, -ahead_s
    return found


def _by_messages(
    start_s: Floats, end_s: Floats, clock: Ints, messages: Messages
) -> Iterator[tuple[tuple[int, int], float]]:
    """Yield pairs of clocks between which messages went both ways, with how far the second is ahead.

    The quickest message of each way took least beside its way itself.
    """
    send, receive = messages
    by_pair = _by_pair(clock[send], clock[receive], end_s[receive] - start_s[send])
    least = {pair: float(its.min()) for pair, its in by_pair}
    for (one, other), seconds in least.items():
        if one < other and (other, one) in least:
            yield (one, other), (seconds - least[other, one]) / 2


def _by_pair(one: Ints, other: Ints, seconds: Floats) -> Iterator[tuple[tuple[int, int], Floats]]:
    """Yield the values of each pair of different clocks."""
    differs = (one != other) & ~np.isnan(seconds)
    one, other, seconds = one[differs], other[differs], seconds[differs]
    if not len(one):
        return
    key = dense_codes(one, other)
    order = np.argsort(key, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        yield (int(one[rows[0]]), int(other[rows[0]])), seconds[rows]
