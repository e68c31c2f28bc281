"""Where the time went: counts, quantiles and sums of the rows, by whatever columns are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import narwhals as nw
import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.analysis import Analysis
from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.grouping import any_row_of, counts_known, order_by, quantiles, rows_of_each, sums
from timing_logger.analysis.intervals import union_lengths
from timing_logger.analysis.operations import is_wait
from timing_logger.analysis.tables import (
    Bools,
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    new_column,
    numbers,
    opened,
    taken,
    wall_between_s,
)
from timing_logger.errors import ConfigurationError
from timing_logger.reading.sources import joined

_PROCESS = ("rank", "incarnation")
_KEYS = ("operation", *_PROCESS, "epoch", "iteration", "phase", "layer_name", "group")

BY_PROCESS = ("operation", *_PROCESS)

_NAN = float("nan")


def summarize(timings: IntoDataFrameT, by: Sequence[str] = BY_PROCESS) -> IntoDataFrameT:
    """One row for each combination of values in the columns ``by`` that there is.

    Rows are in ascending order of the values; if ``by`` begins with ``operation``, that with the most
    time comes first.

    Args:
        by: any of operation, rank, incarnation, epoch, iteration, phase, layer_name, group. Where iterations
            restart, ``iteration`` alone puts those of all epochs together.

    Columns:
        those of ``by``.
        count: records, also those without a valid duration.
        bytes: sum of ``message_size_bytes`` (float; NaN if no record states one).
        mean_ms, p50_ms, p95_ms, p99_ms, max_ms: of the durations; quantiles are linearly interpolated
            (NaN if there are none).
        total_ms: sum of the durations; of ``WAIT`` rows, requests that one call waited for share an
            interval, which counts once.
        wall_share: the time in which at least one was under way, as a part of the rank's wall time,
            which is from the start of its first record to the end of its last (NaN if unknown). Of
            several ranks, a part of all their wall time. ``WAIT`` overlaps the operation that is waited
            for, and threads run side by side: shares may add up to more than 1.

    Raises:
        ConfigurationError: ``by`` is empty, or names another column.
    """
    return cast("IntoDataFrameT", whole_totals([part_of_totals(timings, by)], by))


class PartOfTotals(NamedTuple):
    """What the totals need of some of the processes.

    Attributes:
        keys: a table of the groups, in ascending order, with the columns that they are made by.
        group: of each row, its group, a position in ``keys``.
        elapsed_ms: of each row.
        repeated: of each row, whether its time was counted with another one.
        n_sizes, n_bytes: for each group, how many sizes are known, and their sum.
        under_way_ms, wall_ms: for each group, the time in which one of its rows was under way, and the wall
            time of the processes that have some.
    """

    keys: Any
    group: Ints
    elapsed_ms: Floats
    repeated: Bools
    n_sizes: Ints
    n_bytes: Floats
    under_way_ms: Floats
    wall_ms: Floats


def part_of_totals(timings: IntoDataFrameT, by: Sequence[str]) -> PartOfTotals:
    """Of the rows of whole processes, such as one file's; raises as :func:`summarize` does."""
    _check(by)
    frame = opened(timings, COLUMNS_OF["summarize"])
    operation = coded_text(frame, "operation")
    group = _groups(frame, by)
    row = any_row_of(group)
    elapsed_ms, sizes = numbers(frame, "elapsed_ms"), numbers(frame, "message_size_bytes")
    repeated = seen_before(frame, group, each_text(operation, is_wait))
    under_way_ms, wall_ms = _wall_times(frame, group, len(row), _counted_ms(elapsed_ms, repeated))
    return PartOfTotals(
        keys=taken(frame, by, row).to_native(),
        group=group,
        elapsed_ms=elapsed_ms,
        repeated=repeated,
        n_sizes=counts_known(sizes, group, len(row)),
        n_bytes=sums(sizes, group, len(row)),
        under_way_ms=under_way_ms,
        wall_ms=wall_ms,
    )


def whole_totals(parts: Sequence[PartOfTotals], by: Sequence[str]) -> Any:
    """What ``summarize`` says of all rows, in the library of the parts, which are one or of pandas."""
    keys = _joined_keys(parts)
    group_of_key = _groups(keys, by)
    row = any_row_of(group_of_key)
    places = np.split(group_of_key, np.cumsum([len(part.n_sizes) for part in parts])[:-1])
    figures = _figures(parts, places, len(row))
    table = taken(keys, by, row).with_columns(
        *(new_column(keys, name, values) for name, values in figures.items())
    )
    order = _most_first(keys, row, figures["total_ms"]) if by[0] == "operation" else np.arange(len(row))
    return taken(table, table.columns, order).to_native()


def _groups(frame: Frame, by: Sequence[str]) -> Ints:
    return dense_codes(*(_values(frame, name) for name in by))


def _joined_keys(parts: Sequence[PartOfTotals]) -> Frame:
    if len(parts) == 1:
        frame: Frame = nw.from_native(parts[0].keys)
        return frame
    columns = list(parts[0].keys.columns)
    joined_keys: Frame = nw.from_native(
        joined([{name: part.keys[name] for name in columns} for part in parts], columns)
    )
    return joined_keys


def _check(by: Sequence[str]) -> None:
    others = [name for name in by if name not in _KEYS]
    if isinstance(by, str) or others or not by:
        raise ConfigurationError(f"by={by!r}: name some of the columns {', '.join(_KEYS)}, as a list.")


def _values(frame: Frame, name: str) -> Ints | Floats:
    if name in _PROCESS:
        return frame[name].to_numpy()
    return numbers(frame, name) if name in ("epoch", "iteration") else coded_text(frame, name)[0]


def _most_first(frame: Frame, row: Ints, total_ms: Floats) -> Ints:
    """The order of groups of rows in which operations with more time come first; stable."""
    operation = coded_text(taken(frame, ["operation"], row), "operation")[0]
    total_of_operation = sums(total_ms, operation, len(row))[operation]
    return np.argsort(-total_of_operation, kind="stable")


def _figures(parts: Sequence[PartOfTotals], places: Sequence[Ints], n_keys: int) -> dict[str, Any]:
    """The columns of numbers; ``places`` has for each part the numbers of its groups among all."""
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
    """Whether another ``WAIT`` row of the same key and thread has this row's interval, and was counted."""
    repeated = np.zeros(len(frame), np.bool_)
    rows = np.flatnonzero(is_waiting)
    thread, _ = coded_text(taken(frame, ["thread"], rows), "thread")
    whose = dense_codes(key[rows], _processes(frame)[rows], thread)
    starts, ends = (numbers(frame, name)[rows] for name in ("start_counter", "end_counter"))
    by_end = np.argsort(ends, kind="stable")
    order = by_end[order_by(whose[by_end], starts[by_end])]
    same = [values[order][1:] == values[order][:-1] for values in (whose, starts, ends)]
    repeated[rows[order[1:]]] = np.logical_and.reduce(same)
    return repeated


def _wall_times(frame: Frame, key: Ints, n_keys: int, counted_ms: Floats) -> tuple[Floats, Floats]:
    """Of each key under way, and on the wall, in ms.

    Process by process, since each has an axis of its own, and its rows are few enough to be sorted.
    """
    process = _processes(frame)
    starts, ends = numbers(frame, "start_counter"), numbers(frame, "end_counter")
    under_way_ms, all_wall_ms = np.zeros(n_keys), np.zeros(n_keys)
    for rows in rows_of_each(process):
        here = dense_codes(key[rows])
        present = key[rows][any_row_of(here)]
        union_ms = _union_ms(here, starts[rows], ends[rows], len(present))
        # fmin: a row's duration may be known and its instants not.
        under_way_ms[present] += np.fmin(sums(counted_ms[rows], here, len(present)), union_ms)
        all_wall_ms[present] += 1e3 * wall_between_s(starts[rows], ends[rows])
    return under_way_ms, all_wall_ms


def _union_ms(group: Ints, starts: Floats, ends: Floats, n_groups: int) -> Floats:
    """Length of each group's union of intervals; NaN where the instants of none are known."""
    known = counts_known(starts + ends, group, n_groups) > 0
    return np.where(known, 1e3 * union_lengths(group, starts, ends, n_groups), _NAN)


def _processes(frame: Frame) -> Ints:
    return dense_codes(*(frame[name].to_numpy() for name in _PROCESS))


def totals_by(by: Sequence[str]) -> Analysis[PartOfTotals, Any]:
    """``summarize`` by these columns: a part holds the duration of each row, and its group."""
    reduce = partial(whole_totals, by=by)
    return Analysis(COLUMNS_OF["summarize"], partial(part_of_totals, by=by), reduce)
