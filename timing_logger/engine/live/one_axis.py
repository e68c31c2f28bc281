"""Put the rows of many digests on one time axis, as far as they lie in a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from timing_logger.analysis.arrays import dense_codes
from timing_logger.analysis.grouping import any_row_of, rows_of_each
from timing_logger.analysis.table_types import Floats, Ints
from timing_logger.engine.live.digest import Digest, Key, Process
from timing_logger.engine.live.rows import ADDED, Rows
from timing_logger.engine.live.sampled_steps import of_fewer_steps
from timing_logger.reading.alignment import Alignment

Clocks: TypeAlias = Mapping[tuple[str, Key], Alignment]
"""The clock of each process, by the source of digests that is believed of it."""


def on_one_axis(digests: Sequence[Digest], clocks: Clocks, since_unix_s: float) -> Rows:
    """Return the rows of a window, those of each process together and in order, on one axis.

    Args:
        digests: those of the window, those of a source in their order.
        clocks: of the processes that count; all others are left out.
        since_unix_s: when the window begins, in seconds since 1970.

    Returns:
        The rows of the steps that all digests have, with ``ADDED``.
    """
    every = max((digest.every for digest in digests), default=1)
    parts = [of_fewer_steps(digest, every).rows for digest in digests]
    rows = Rows.joined(parts)
    part = np.repeat(np.arange(len(parts)), [len(its) for its in parts])
    teller = dense_codes(part, rows.process)
    told = _told(digests, rows, part, any_row_of(teller))
    axes = _Axes.of(told, clocks)
    since_s = np.array([since_unix_s - process.wall_offset_s for _, process in told])
    inside = (axes.number[teller] >= 0) & ~(rows.numbers["start_counter"] < since_s[teller])
    chosen = np.flatnonzero(inside)
    chosen = chosen[np.argsort(rows.process[chosen], kind="stable")]
    return axes.added_to(rows.only(chosen), axes.number[teller[chosen]])


def _told(digests: Sequence[Digest], rows: Rows, part: Ints, chosen: Ints) -> list[tuple[str, Process]]:
    """Return for each of the chosen rows the source of its digest, and what that says of its process."""
    processes = [{(one.rank, one.incarnation): one for one in digest.processes} for digest in digests]
    names = (rows.numbers[name][chosen].tolist() for name in ("rank", "incarnation"))
    return [
        (digests[i].source, processes[i][rank, incarnation])
        for i, rank, incarnation in zip(part[chosen].tolist(), *names, strict=True)
    ]


class _Axes(NamedTuple):
    """How the instants of processes are put on the axis of all.

    Attributes:
        number: for each process the index of its alignment; -1 if it does not count.
        alignments: those that differ: all processes of a host have one.
    """

    number: Ints
    alignments: Sequence[Alignment]

    @classmethod
    def of(cls, told: Sequence[tuple[str, Process]], clocks: Clocks) -> _Axes:
        numbers: dict[tuple[str, int], int] = {}
        alignments: list[Alignment] = []
        found = np.full(len(told), -1)
        for i, (source, process) in enumerate(told):
            clock = clocks.get((source, process.key))
            if clock is None:
                continue
            found[i] = numbers.setdefault((clock.how, id(clock.course)), len(alignments))
            if found[i] == len(alignments):
                alignments.append(clock)
        return cls(found, alignments)

    def added_to(self, rows: Rows, number: Ints) -> Rows:
        """Return rows with ``ADDED``, by the index of each row's alignment."""
        starts_s, ends_s = rows.numbers["start_counter"], rows.numbers["end_counter"]
        on_axis: Floats = np.full((len(ADDED), len(rows)), np.nan)
        for its in rows_of_each(dense_codes(number)):
            clock = self.alignments[int(number[its][0])]
            uncertainty_s = np.fmax(clock.uncertainty_at(starts_s[its]), clock.uncertainty_at(ends_s[its]))
            on_axis[:, its] = clock.on_the_axis(starts_s[its]), clock.on_the_axis(ends_s[its]), uncertainty_s
        return rows.with_numbers(**dict(zip(ADDED, on_axis, strict=True)))
