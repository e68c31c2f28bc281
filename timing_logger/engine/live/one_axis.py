"""Put the rows of many digests on one time axis, as far as they lie in a window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from timing_logger.analysis.arrays import dense_codes
from timing_logger.analysis.grouping import rows_of_each
from timing_logger.analysis.table_types import Floats, Ints
from timing_logger.engine.live.digest import Digest
from timing_logger.engine.live.reports import Reports, places_among
from timing_logger.engine.live.row_arrays import ADDED, RowArrays, joined_numbers
from timing_logger.engine.live.sampled_steps import of_fewer_steps
from timing_logger.reading.alignment import Alignment


def on_one_axis(
    digests: Sequence[Digest], reports: Reports, clocks: Sequence[Alignment], since_unix_s: Floats
) -> RowArrays:
    """Return the rows of a window, those of each process together and in order, on one axis.

    Args:
        digests: those of the window, those of a source in their order.
        reports: what they say of processes.
        clocks: those of the processes that count; the rows of others are left out.
        since_unix_s: when the window begins for each of these processes, in seconds since 1970.

    Returns:
        The rows of the steps that all digests have, with ``ADDED``.
    """
    every = max((digest.every for digest in digests), default=1)
    parts = [of_fewer_steps(digest, every).rows for digest in digests]
    part = np.repeat(np.arange(len(parts)), [len(its) for its in parts])
    rank, incarnation, starts_s = (
        joined_numbers(parts, name) for name in ("rank", "incarnation", "start_counter")
    )
    report = places_among(
        np.column_stack([part, rank, incarnation]),
        np.column_stack([reports.part, reports.rank, reports.incarnation]),
    )
    process = np.append(reports.process, -1)[report]
    since_s = np.append(since_unix_s, np.nan)[process] - np.append(reports.wall_offset_s, np.nan)[report]
    chosen = np.flatnonzero((process >= 0) & ~(starts_s < since_s))
    chosen = chosen[np.argsort(process[chosen], kind="stable")]
    return _with_axis(RowArrays.joined(parts, chosen), process[chosen], clocks)


def _with_axis(rows: RowArrays, process: Ints, clocks: Sequence[Alignment]) -> RowArrays:
    """Return rows with ``ADDED``, by the clock of the process of each."""
    alike: dict[tuple[str, int], int] = {}  # all processes of a host have one
    number = np.array([alike.setdefault((clock.how, id(clock.course)), i) for i, clock in enumerate(clocks)])
    starts_s, ends_s = rows.numbers["start_counter"], rows.numbers["end_counter"]
    on_axis: Floats = np.full((len(ADDED), len(rows)), np.nan)
    for its in rows_of_each(dense_codes(number[process])):
        clock = clocks[int(process[its][0])]
        uncertainty_s = np.fmax(clock.uncertainty_at(starts_s[its]), clock.uncertainty_at(ends_s[its]))
        on_axis[:, its] = clock.on_the_axis(starts_s[its]), clock.on_the_axis(ends_s[its]), uncertainty_s
    return rows.with_numbers(**dict(zip(ADDED, on_axis, strict=True)))
