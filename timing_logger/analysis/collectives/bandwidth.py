"""The bandwidth of collectives, messages and copies, as nccl-tests defines it, and the rows that tell it.

:class:`Measured` holds the rows that move bytes, with sizes and times; ``compression`` is made of them, too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, cast

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.collectives.matching import Instances, transfer_times_ms, with_bytes
from timing_logger.analysis.collectives.waits import complete_instances
from timing_logger.analysis.rows import tables
from timing_logger.analysis.rows.analysis import COLUMNS_OF, OfCommunication
from timing_logger.analysis.rows.arrays import (
    Array,
    Bools,
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    numbers,
    renamed,
)
from timing_logger.analysis.rows.grouping import (
    any_row_of,
    counted_quantiles,
    greatest_of_each,
    quantiles,
    size_classes,
)
from timing_logger.analysis.rows.intervals import durations_ms
from timing_logger.analysis.rows.operations import (
    BUS_FACTORS,
    COMMUNICATION,
    COPIES,
    algorithm_bytes,
    base_operation,
    bus_factor,
)
from timing_logger.schema.record import OK

_COLUMNS = (
    "operation", "group", "group_size", "size_class_bytes", "count", "message_size_bytes", "time_ms",
    "time_p5_ms", "time_p95_ms", "transfer_ms", "algbw_gb_per_s", "busbw_gb_per_s",
    "transfer_algbw_gb_per_s", "transfer_busbw_gb_per_s",
)  # fmt: skip


_BYTES_PER_GB = 1e9


def bandwidth(timings: IntoDataFrameT) -> IntoDataFrameT:
    """Compute the bandwidth of each operation, group and class of message sizes.

    Copies between host and device are included. With S the bytes that the operation handles and n the
    size of its group, algorithm bandwidth is S / t. Bus bandwidth is algorithm bandwidth times a factor
    that makes operations and numbers of ranks comparable (nccl-tests, doc/PERFORMANCE.md). The time t is
    stated twice: the time that a rank spent, which includes waiting for the last rank, and the transfer
    time, which does not. Rows that are not ``ok`` are left out. A row of a non-blocking operation without
    ``seq``, such as an ``ISEND_INDEX`` that was timed by hand around the call, ends before its operation
    does: it is counted, but its time is unknown.

    Args:
        timings: a table of timings, as ``read_timings`` returns.

    Returns:
        One row for each operation, group and class of sizes.

    Columns:
        operation: the base operation; ``IALLREDUCE`` is in ``ALLREDUCE``, from issue to completion.
        group, group_size.
        size_class_bytes: the least power of two that is no less than the message size; 0 for messages
            without bytes (Int64; NA if unknown).
        count: number of rows.
        message_size_bytes: median of the message sizes.
        time_ms, time_p5_ms, time_p95_ms: median and quantiles of ``elapsed_ms`` (NaN if no row tells it).
        transfer_ms: median of the transfer time, see ``waits``, of rows in complete collectives of two
            ranks or more (NaN if there are none).
        algbw_gb_per_s, busbw_gb_per_s: from the median of S and ``time_ms``, in 1e9 bytes per second.
        transfer_algbw_gb_per_s, transfer_busbw_gb_per_s: from the median of S and ``transfer_ms``.

    Bandwidths are NaN for operations that move nothing, where no bytes are known, and where the size of
    the group is needed but unknown: a group that states none has as many ranks as took part in its complete
    collectives. Where ranks send different amounts (``ALLTOALLV``), S is known only
    for a complete collective: it is the sum of what all ranks send for ``ALLGATHERV`` and ``GATHERV``,
    else the most that a rank sends, since what a rank receives is not recorded.
    """
    frame = tables.opened(timings, COLUMNS_OF["bandwidth"])
    measured = Measured.of(frame, complete_instances(frame))
    return cast("IntoDataFrameT", bandwidth_of(frame, measured).to_native())


def bandwidth_of(frame: Frame, measured: Measured) -> Frame:
    """Compute :func:`bandwidth` from measured rows.

    Args:
        frame: the table that ``measured.row`` refers to, with ``group`` and ``group_size``.
        measured: the measured rows; those that do not count in ``bandwidth`` are left out here.
    """
    measured = measured.only(measured.is_one_of(MOVES) & measured.is_ok)
    measured = measured.only_rows(~(measured.time_ms < 0))
    size_class = size_classes(measured.size)
    group, _ = coded_text(frame, "group")
    key = dense_codes(measured.operation, group[measured.row], measured.group_size, size_class)
    kind = any_row_of(key)
    figures = _figures(measured, key, kind)
    table = tables.taken(frame, ["group", "group_size"], measured.row[kind]).with_columns(
        tables.text_column(frame, "operation", measured.operations, measured.operation[kind]),
        tables.nullable_integers(frame, "size_class_bytes", size_class[kind]),
        tables.new_column(frame, "count", np.bincount(key[measured.kind], minlength=len(kind))),
        *tables.new_columns(frame, figures),
    )
    return table.select(*_COLUMNS)


def _figures(measured: Measured, key: Ints, kind: Ints) -> dict[str, Floats]:
    """Compute the numeric columns, one entry per key; ``kind`` holds one example kind for each key."""
    n_keys = len(kind)
    key_of_row = key[measured.kind]
    time_ms, low_ms, high_ms = quantiles(measured.time_ms, key_of_row, n_keys, (0.5, 0.05, 0.95))
    transfer_ms = quantiles(measured.transfer_ms, key_of_row, n_keys, [0.5])[0]
    n_rows = measured.n_rows
    size, handled = (
        counted_quantiles(values, n_rows, key, n_keys, [0.5])[0]
        for values in (measured.size, measured.handled)
    )
    names = [measured.operations[code] for code in measured.operation[kind]]
    n_ranks = greatest_of_each(measured.n_ranks, key, n_keys)
    factors = np.array([bus_factor(name, n) for name, n in zip(names, n_ranks, strict=True)], np.float64)
    algbw, transfer_algbw = _gb_per_s(handled, time_ms), _gb_per_s(handled, transfer_ms)
    return {
        "message_size_bytes": size,
        "time_ms": time_ms,
        "time_p5_ms": low_ms,
        "time_p95_ms": high_ms,
        "transfer_ms": transfer_ms,
        "algbw_gb_per_s": algbw,
        "busbw_gb_per_s": algbw * factors,
        "transfer_algbw_gb_per_s": transfer_algbw,
        "transfer_busbw_gb_per_s": transfer_algbw * factors,
    }


def _gb_per_s(handled_bytes: Floats, time_ms: Floats) -> Floats:
    return handled_bytes / np.where(time_ms > 0, time_ms, np.nan) * 1e3 / _BYTES_PER_GB


def _moves_bytes(operation: str) -> bool:
    return base_operation(operation) in MOVES


BANDWIDTH: OfCommunication[pd.DataFrame] = OfCommunication(COLUMNS_OF["bandwidth"], bandwidth, _moves_bytes)
"""The analysis :func:`bandwidth`."""


# -- the rows that move bytes, with sizes and times ------------------------------------------------------


_TOTAL_OF_RANKS = frozenset({"ALLGATHERV", "GATHERV"})
_MOST_OF_RANKS = frozenset({"ALLTOALLV", "ALLTOALLW", "SCATTERV"})

MOVES = COMMUNICATION | COPIES
"""The base operations that have a row in ``bandwidth``."""


class Measured(NamedTuple):
    """The rows that move bytes, and rows of other operations that were asked for.

    Most rows differ only in their times. Rows that are alike in everything else form a kind. The attributes
    up to ``handled`` have one entry per kind, the others one entry per row.

    Attributes:
        row: position in the table of one row of the kind.
        operation: index of the kind's base operation in ``operations``.
        operations: names of base operations, ascending.
        size: ``message_size_bytes``.
        group_size: size of the group as stated.
        n_ranks: that size; where it is not stated, the number of ranks of the row's instance. NaN for rows
            without an instance.
        is_ok: whether the status is ``ok`` or blank.
        handled: S of nccl-tests, in bytes; NaN where there is none, and where its time is unknown.
        kind: the number of the row's kind; each kind has at least one row.
        time_ms: duration of the row; NaN where the operation went on after it.
        transfer_ms: transfer time of the row's instance; NaN where a time of the instance is unknown, and
            for rows without an instance.
    """

    row: Ints
    operation: Ints
    operations: list[str]
    size: Floats
    group_size: Floats
    n_ranks: Floats
    is_ok: Bools
    handled: Floats
    kind: Ints
    time_ms: Floats
    transfer_ms: Floats

    @classmethod
    def of(
        cls,
        frame: Frame,
        parts: Instances,
        others: Collection[str] = (),
        apart: Sequence[Array] = (),
    ) -> Measured:
        """Collect the rows that move bytes of a table.

        Args:
            frame: a table that ``opened`` returned.
            parts: its ``complete_instances``.
            others: further base operations whose rows are collected.
            apart: further arrays with one entry per row of the table; rows in which they differ are of
                different kinds.
        """
        named = coded_text(frame, "operation")
        row = np.flatnonzero(each_text(named, lambda name: base_operation(name) in MOVES.union(others)))
        time_ms = durations_ms(frame)
        operation, operations = renamed(named, base_operation)
        size, group_size = numbers(frame, "message_size_bytes"), numbers(frame, "group_size")
        is_ok = each_text(coded_text(frame, "status"), {OK, ""}.__contains__)
        n_ranks = group_size.copy()
        n_ranks[parts.row] = np.where(
            np.isnan(parts.group_size), parts.for_parts(parts.n_parts), parts.group_size
        )
        handled = _handled_bytes(operation, operations, size, n_ranks)
        transfer_ms = np.full(len(frame), np.nan)
        transfer_ms[parts.row] = transfer_times_ms(parts, time_ms[parts.row], with_bytes(frame, parts))
        handled[parts.row] = _handled_by_all(parts, size[parts.row], handled[parts.row])
        handled = np.where((handled > 0) & (time_ms >= 0), handled, np.nan)
        operation[parts.row] = parts.operation
        group, _ = coded_text(frame, "group")
        alike = (operation, group, group_size, n_ranks, size, handled, is_ok, *apart)
        kind = dense_codes(*(column[row] for column in alike))
        some = row[any_row_of(kind)]
        return cls(
            row=some,
            operation=operation[some],
            operations=operations,
            size=size[some],
            group_size=group_size[some],
            n_ranks=n_ranks[some],
            is_ok=is_ok[some],
            handled=handled[some],
            kind=kind,
            time_ms=time_ms[row],
            transfer_ms=transfer_ms[row],
        )

    @property
    def n_rows(self) -> Ints:
        """The number of rows of each kind."""
        return np.bincount(self.kind, minlength=len(self.row))

    def is_one_of(self, operations: Collection[str]) -> Bools:
        """Tell for each kind whether its base operation is in ``operations``."""
        return np.array([name in operations for name in self.operations], np.bool_)[self.operation]

    def only(self, wanted: Bools) -> Measured:
        """Return the kinds that are ``wanted`` (one entry per kind), and their rows."""
        return self if wanted.all() else self.only_rows(wanted[self.kind])

    def only_rows(self, wanted: Bools) -> Measured:
        """Return the rows that are ``wanted`` (one entry per row), and their kinds."""
        if wanted.all():  # millions of rows need no copy
            return self
        kind = self.kind[wanted]
        is_left = np.bincount(kind, minlength=len(self.row)) > 0
        of_kinds = ("row", "operation", "size", "group_size", "n_ranks", "is_ok", "handled")
        return self._replace(
            **{name: getattr(self, name)[is_left] for name in of_kinds},
            kind=(np.cumsum(is_left) - 1)[kind],
            time_ms=self.time_ms[wanted],
            transfer_ms=self.transfer_ms[wanted],
        )


def _handled_bytes(operation: Ints, operations: list[str], size: Floats, n_ranks: Floats) -> Floats:
    """Return S of nccl-tests for each row where the rank's own bytes tell it, else NaN."""
    handled = np.full(len(size), np.nan)
    for code, name in enumerate(operations):
        if name in BUS_FACTORS.keys() - _TOTAL_OF_RANKS - _MOST_OF_RANKS:
            here = operation == code
            handled[here] = algorithm_bytes(name, size[here], n_ranks[here])
    return handled


def _handled_by_all(parts: Instances, size: Floats, handled: Floats) -> Floats:
    """Return S of nccl-tests for the parts of complete instances, whose ranks may send different amounts."""
    if not len(size):
        return handled
    total = parts.for_parts(np.add.reduceat(size, parts.first))
    most = parts.for_parts(np.fmax.reduceat(size, parts.first))
    cases = [parts.is_one_of(_TOTAL_OF_RANKS), parts.is_one_of(_MOST_OF_RANKS)]
    return np.select(cases, [total, most], handled)


# -- what a benchmark reached ----------------------------------------------------------------------------


_BYTES_PER_US = 1e-3  # in GB/s

_STATED_FOR_EACH = frozenset({"ALLTOALL", "ALLTOALLV", "SCATTER"})
"""Operations of which benchmarks of MPI state the bytes for each rank, of those in the send buffer."""


class Point(NamedTuple):
    """A result of a benchmark.

    Attributes:
        operation: the base operation.
        size_bytes: the size as the benchmark states it: of nccl-tests all bytes that the operation handles,
            of others those in the send buffer of a rank, or for each rank in it.
        time_us: how long the operation took.
        n_ranks: the number of ranks; None if the benchmark does not tell.
        busbw_gb_per_s: its bus bandwidth; None if the benchmark does not state it.
    """

    operation: str
    size_bytes: float
    time_us: float
    n_ranks: int | None
    busbw_gb_per_s: float | None


class Benchmark(NamedTuple):
    """What a benchmark measured.

    Attributes:
        name: the benchmark, as it stands in a sentence.
        points: its results.
    """

    name: str
    points: Sequence[Point]


def with_expectation(bandwidth: pd.DataFrame, benchmark: Benchmark) -> pd.DataFrame:
    """Add what a benchmark reached to each row of ``bandwidth``, and the share of it that the run reached.

    Bus bandwidths are compared, which do not depend on the number of ranks (nccl-tests, doc/PERFORMANCE.md):
    that of the transfer, where it is known, else that of the time that a rank spent. Between two sizes that
    were measured, the logarithm of the bandwidth is interpolated linearly in that of the size. Outside of
    them nothing is expected. Where the benchmark does not state its number of ranks, it is taken to be that
    of the group.

    Args:
        bandwidth: as ``bandwidth`` returns.
        benchmark: what was measured.

    Returns:
        The table with two columns more.

    Columns:
        expected_busbw_gb_per_s: what the benchmark reached; NaN if it did not measure that.
        share_of_expected: the bus bandwidth of the run divided by that; NaN where either is not known.
    """
    transfer = bandwidth["transfer_busbw_gb_per_s"].to_numpy(np.float64)
    reached = np.where(np.isnan(transfer), bandwidth["busbw_gb_per_s"].to_numpy(np.float64), transfer)
    sizes, n_ranks = (
        bandwidth[name].to_numpy(np.float64, na_value=np.nan).tolist()
        for name in ("message_size_bytes", "group_size")
    )
    expected = np.array([
        _expected(operation, size, n, benchmark.points)
        for operation, size, n in zip(bandwidth["operation"].astype(str), sizes, n_ranks, strict=True)
    ])  # fmt: skip
    columns = {"expected_busbw_gb_per_s": expected, "share_of_expected": reached / expected}
    found: pd.DataFrame = bandwidth.assign(**columns)
    return found


def _expected(operation: str, size_bytes: float, n_ranks: float, points: Sequence[Point]) -> float:
    """Return the bus bandwidth that is expected of an operation of a size, in GB/s; NaN if unknown."""
    alike = [point for point in points if point.operation == operation]
    if not alike or not size_bytes > 0:
        return np.nan
    n = 1.0 if np.isnan(n_ranks) else n_ranks  # of messages
    at = algorithm_bytes(operation, size_bytes, n)
    found = sorted({_handled_and_busbw(point, n) for point in alike})
    sizes, busbw = (np.array(values) for values in zip(*found, strict=True))
    sizes, busbw = sizes[busbw > 0], busbw[busbw > 0]
    if not len(sizes) or not sizes[0] <= at <= sizes[-1]:
        return np.nan
    return float(np.exp(np.interp(np.log(at), np.log(sizes), np.log(busbw))))


def _handled_and_busbw(point: Point, n_ranks: float) -> tuple[float, float]:
    """Return all bytes that the operation handled, and its bus bandwidth in GB/s."""
    n = float(point.n_ranks or n_ranks)
    if point.busbw_gb_per_s is not None:
        exact = point.size_bytes / point.time_us * _BYTES_PER_US * bus_factor(point.operation, n)
        return point.size_bytes, exact if point.n_ranks and exact > 0 else point.busbw_gb_per_s
    size_bytes = point.size_bytes * (n if point.operation in _STATED_FOR_EACH else 1.0)
    handled = algorithm_bytes(point.operation, size_bytes, n)
    return handled, handled / point.time_us * _BYTES_PER_US * bus_factor(point.operation, n)
