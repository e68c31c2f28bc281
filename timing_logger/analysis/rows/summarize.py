"""Summarize rows by any columns: counts, quantiles and sums of their times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, cast

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrame, IntoDataFrameT

from timing_logger.analysis.rows.analysis import COLUMNS_OF, ByProcess
from timing_logger.analysis.rows.arrays import (
    Bools,
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    numbers,
    processes_of,
)
from timing_logger.analysis.rows.grouping import (
    any_row_of,
    counts_known,
    order_by,
    quantiles,
    rows_of_each,
    sums,
)
from timing_logger.analysis.rows.intervals import union_lengths, wall_times_s
from timing_logger.analysis.rows.operations import is_wait
from timing_logger.analysis.rows.tables import in_one_table, new_columns, opened, taken
from timing_logger.errors import ConfigurationError
from timing_logger.schema.timing_files import KEYS

_PROCESS = ("rank", "incarnation")

BY_PROCESS = ("operation", *_PROCESS)

_NAN = float("nan")


def summarize(timings: IntoDataFrameT, by: Sequence[str] = BY_PROCESS) -> IntoDataFrameT:
    """Summarize the records of each combination of values in the columns ``by``.

    Args:
        timings: a table of timings, as ``read_timings`` returns.
        by: any of operation, rank, incarnation, epoch, iteration, phase, layer_name, group. Where iterations
            restart, ``iteration`` alone puts those of all epochs together.

    Returns:
        One row for each combination that occurs, in ascending order of the values. If ``by`` begins with
        ``operation``, the operation with the most time comes first.

    Columns:
        those of ``by``.
        count: number of records, also of those without a valid duration.
        bytes: sum of ``message_size_bytes`` (float; NaN if no record states one).
        mean_ms, p50_ms, p95_ms, p99_ms, max_ms: of the durations; quantiles are linearly interpolated
            (NaN if there are none).
        total_ms: sum of the durations. ``WAIT`` rows of requests that one call waited for share an
            interval, which counts once.
        wall_share: the time in which at least one of the records was under way, as a fraction of the rank's
            wall time, which is from the start of its first record to the end of its last (NaN if unknown).
            For several ranks, a fraction of the sum of their wall times. ``WAIT`` overlaps the operation
            that is waited for, and threads run side by side: shares may add up to more than 1.

    Raises:
        ConfigurationError: ``by`` is empty, or names another column.
    """
    return cast("IntoDataFrameT", reduce_totals([map_totals(timings, by)], by))


class TotalsPart(NamedTuple):
    """What the totals need of some of the processes.

    Attributes:
        keys: a table of the groups of rows, in ascending order, with the columns that they are made by.
        group: one entry per row: its group, a position in ``keys``.
        elapsed_ms: one entry per row: its duration.
        repeated: one entry per row: whether its time was counted with another row.
        n_sizes, n_bytes: one entry per group: how many message sizes are known, and their sum in bytes.
        under_way_ms, wall_ms: one entry per group: the time in which one of its rows was under way, and the
            wall time of the processes that have such rows.
    """

    keys: IntoDataFrame
    group: Ints
    elapsed_ms: Floats
    repeated: Bools
    n_sizes: Ints
    n_bytes: Floats
    under_way_ms: Floats
    wall_ms: Floats


def map_totals(timings: IntoDataFrameT, by: Sequence[str]) -> TotalsPart:
    """Reduce the rows of whole processes, such as those of one file, to what the totals need.

    Args:
        timings, by: as those of :func:`summarize`.

    Raises:
        ConfigurationError: ``by`` is empty, or names another column.
    """
    if isinstance(by, str) or not by or not set(by) <= set(KEYS):
        raise ConfigurationError(f"by={by!r}: name some of the columns {', '.join(KEYS)}, as a list.")
    frame = opened(timings, COLUMNS_OF["summarize"])
    operation = coded_text(frame, "operation")
    group = _groups(frame, by)
    row = any_row_of(group)
    elapsed_ms, sizes = numbers(frame, "elapsed_ms"), numbers(frame, "message_size_bytes")
    repeated = seen_before(frame, group, each_text(operation, is_wait))
    under_way_ms, wall_ms = _wall_times(frame, group, len(row), _counted_ms(elapsed_ms, repeated))
    return TotalsPart(
        keys=taken(frame, by, row).to_native(),
        group=group,
        elapsed_ms=elapsed_ms,
        repeated=repeated,
        n_sizes=counts_known(sizes, group, len(row)),
        n_bytes=sums(sizes, group, len(row)),
        under_way_ms=under_way_ms,
        wall_ms=wall_ms,
    )


def reduce_totals(parts: Sequence[TotalsPart], by: Sequence[str]) -> IntoDataFrame:
    """Compute :func:`summarize` from the parts of all processes, in their library.

    Args:
        parts: as ``map_totals`` returned them; several parts must be of pandas.
        by: the columns that the parts were made by.
    """
    keys = _joined_keys(parts)
    group_of_key = _groups(keys, by)
    row = any_row_of(group_of_key)
    places = np.split(group_of_key, np.cumsum([len(part.n_sizes) for part in parts])[:-1])
    figures = _figures(parts, places, len(row))
    table = taken(keys, by, row).with_columns(*new_columns(keys, figures))
    order = _most_first(keys, row, figures["total_ms"]) if by[0] == "operation" else np.arange(len(row))
    totals: IntoDataFrame = taken(table, table.columns, order).to_native()
    return totals


def _groups(frame: Frame, by: Sequence[str]) -> Ints:
    return dense_codes(*(_values(frame, name) for name in by))


def _joined_keys(parts: Sequence[TotalsPart]) -> Frame:
    if len(parts) == 1:
        return nw.from_native(parts[0].keys)
    tables = [cast("pd.DataFrame", part.keys) for part in parts]  # of other libraries all rows are one part
    joined_keys: Frame = nw.from_native(in_one_table(tables))
    return joined_keys


def _values(frame: Frame, name: str) -> Ints | Floats:
    if name in _PROCESS:
        return frame[name].to_numpy()
    return numbers(frame, name) if name in ("epoch", "iteration") else coded_text(frame, name)[0]


def _most_first(frame: Frame, row: Ints, total_ms: Floats | Ints) -> Ints:
    """Return the stable order of groups of rows in which operations with more time come first."""
    operation = coded_text(taken(frame, ["operation"], row), "operation")[0]
    total_of_operation = sums(total_ms, operation, len(row))[operation]
    return np.argsort(-total_of_operation, kind="stable")


def _figures(parts: Sequence[TotalsPart], places: Sequence[Ints], n_keys: int) -> dict[str, Floats | Ints]:
    """Compute the numeric columns; ``places`` has for each part the numbers of its groups among all."""
    key = np.concatenate([place[part.group] for part, place in zip(parts, places, strict=True)])
    elapsed_ms = np.concatenate([part.elapsed_ms for part in parts])
    repeated = np.concatenate([part.repeated for part in parts])
    n_sizes, n_bytes, under_way_ms, wall_ms = np.zeros((4, n_keys))
    for part, place in zip(parts, places, strict=True):
        n_sizes[place] += part.n_sizes
        n_bytes[place] += part.n_bytes
        under_way_ms[place] += part.under_way_ms
        wall_ms[place] += part.wall_ms
    p50, p95, p99, most = quantiles(elapsed_ms, key, n_keys, (0.5, 0.95, 0.99, 1.0))
    n_elapsed = counts_known(elapsed_ms, key, n_keys)
    return {
        "count": np.bincount(key, minlength=n_keys),
        "bytes": np.where(n_sizes > 0, n_bytes, _NAN),
        "mean_ms": sums(elapsed_ms, key, n_keys) / np.where(n_elapsed > 0, n_elapsed, _NAN),
        "p50_ms": p50,
        "p95_ms": p95,
        "p99_ms": p99,
        "max_ms": most,
        "total_ms": sums(_counted_ms(elapsed_ms, repeated), key, n_keys),
        "wall_share": under_way_ms / np.where(wall_ms > 0, wall_ms, _NAN),
    }


def _counted_ms(elapsed_ms: Floats, repeated: Bools) -> Floats:
    return np.where(repeated | np.isnan(elapsed_ms), 0.0, elapsed_ms)


def seen_before(frame: Frame, key: Ints, is_waiting: Bools) -> Bools:
    """Tell for each row whether its interval was counted with another ``WAIT`` row.

    Such a row has the same key, process, thread and interval as an earlier one.

    Args:
        frame: a table that ``opened`` returned.
        key: for each row a number; only rows of equal numbers are compared.
        is_waiting: for each row, whether it is a ``WAIT`` row.
    """
    repeated = np.zeros(len(frame), np.bool_)
    rows = np.flatnonzero(is_waiting)
    thread, _ = coded_text(taken(frame, ["thread"], rows), "thread")
    whose = dense_codes(key[rows], processes_of(frame)[rows], thread)
    starts, ends = (numbers(frame, name)[rows] for name in ("start_counter", "end_counter"))
    by_end = np.argsort(ends, kind="stable")
    order = by_end[order_by(whose[by_end], starts[by_end])]
    same = [values[order][1:] == values[order][:-1] for values in (whose, starts, ends)]
    repeated[rows[order[1:]]] = np.logical_and.reduce(same)
    return repeated


def _wall_times(frame: Frame, key: Ints, n_keys: int, counted_ms: Floats) -> tuple[Floats, Floats]:
    """Return for each key the time under way and the wall time, in ms.

    It goes process by process, since each has a time axis of its own, and its rows are few enough to sort.
    """
    process = processes_of(frame)
    starts, ends = numbers(frame, "start_counter"), numbers(frame, "end_counter")
    under_way_ms, all_wall_ms = np.zeros(n_keys), np.zeros(n_keys)
    for rows, wall_s in zip(rows_of_each(process), wall_times_s(frame, process).tolist(), strict=True):
        here = dense_codes(key[rows])
        present = key[rows][any_row_of(here)]
        known = counts_known(starts[rows] + ends[rows], here, len(present)) > 0
        union_s = union_lengths(here, starts[rows], ends[rows], len(present))
        union_ms = np.where(known, 1e3 * union_s, _NAN)
        # fmin: a row's duration may be known and its instants not.
        under_way_ms[present] += np.fmin(sums(counted_ms[rows], here, len(present)), union_ms)
        all_wall_ms[present] += 1e3 * wall_s
    return under_way_ms, all_wall_ms


def totals_by(by: Sequence[str]) -> ByProcess[TotalsPart, IntoDataFrame]:
    """Return the analysis :func:`summarize` by these columns, in parts.

    A part holds the duration of each row, and its group.
    """
    return ByProcess(COLUMNS_OF["summarize"], partial(map_totals, by=by), partial(reduce_totals, by=by))
