"""How fast the bytes moved, as nccl-tests counts them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis._frames import (
    Bools,
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    new_column,
    nullable_integers,
    numbers,
    opened,
    taken,
    text_column,
)
from timing_logger.analysis._grouped import any_row_of, counted_quantiles, quantiles
from timing_logger.analysis._instances import Instances
from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.matching import durations_ms
from timing_logger.analysis.operations import (
    BUS_FACTORS,
    COMMUNICATION,
    COPIES,
    algorithm_bytes,
    base_operation,
    bus_factor,
)
from timing_logger.analysis.waiting import complete_instances, transfer_times_ms, with_bytes
from timing_logger.record import OK

_COLUMNS = (
    "operation", "group", "group_size", "size_class_bytes", "count", "message_size_bytes", "time_ms",
    "time_p5_ms", "time_p95_ms", "transfer_ms", "algbw_gb_per_s", "busbw_gb_per_s",
    "transfer_algbw_gb_per_s", "transfer_busbw_gb_per_s",
)  # fmt: skip

_TOTAL_OF_RANKS = frozenset({"ALLGATHERV", "GATHERV"})
_MOST_OF_RANKS = frozenset({"ALLTOALLV", "ALLTOALLW", "SCATTERV"})

_MOVES = COMMUNICATION | COPIES

_BYTES_PER_GB = 1e9


def bandwidth(timings: IntoDataFrameT) -> IntoDataFrameT:
    """One row for each operation, group and class of sizes; copies between host and device too.

    With S the bytes that the operation handles and n the size of its group, algorithm bandwidth is
    S / t, and bus bandwidth that times a factor which makes operations and numbers of ranks comparable
    (nccl-tests, doc/PERFORMANCE.md). The time t is stated twice: what a rank spent, which includes
    waiting for the last, and the transfer time, which does not. Rows that are not ``ok`` are left out. A
    row of the background without ``seq``, such as an ``ISEND_INDEX`` that was timed by hand around the call,
    ends before its operation does: it counts, and tells no time.

    Columns:
        operation: the base operation; ``IALLREDUCE`` is in ``ALLREDUCE``, from issue to completion.
        group, group_size.
        size_class_bytes: the power of two that is the least upper bound of the message sizes; 0 for
            those without bytes (Int64; NA if unknown).
        count: rows.
        message_size_bytes: their median.
        time_ms, time_p5_ms, time_p95_ms: median and quantiles of ``elapsed_ms`` (NaN if none tells it).
        transfer_ms: median of the transfer time, see ``waits``, of rows in complete collectives of two
            ranks or more (NaN if there are none).
        algbw_gb_per_s, busbw_gb_per_s: from the median of S and ``time_ms``, in 1e9 bytes per second.
        transfer_algbw_gb_per_s, transfer_busbw_gb_per_s: from the median of S and ``transfer_ms``.

    Bandwidths are NaN for operations that move nothing, where no bytes are known, and where they need
    the size of the group and it is not. Where ranks send different amounts (``ALLTOALLV``) S takes a
    complete collective: the sum of what all send for ``ALLGATHERV`` and ``GATHERV``, else the most that
    a rank sends, since what it receives is not recorded.
    """
    frame = opened(timings, COLUMNS_OF["bandwidth"])
    measured = Measured.of(frame, complete_instances(frame))
    return cast("IntoDataFrameT", bandwidth_of(frame, measured).to_native())


def bandwidth_of(frame: Frame, measured: Measured) -> Frame:
    """The bandwidths of what was measured of the rows of ``frame``."""
    measured = measured.only(measured.has_bandwidth)
    measured = measured.only_rows(~(measured.time_ms < 0))
    size_class = size_classes(measured.size)
    group, _ = coded_text(frame, "group")
    key = dense_codes(measured.operation, group[measured.row], measured.group_size, size_class)
    kind = any_row_of(key)
    figures = _figures(measured, key, kind)
    table = taken(frame, ["group", "group_size"], measured.row[kind]).with_columns(
        text_column(frame, "operation", measured.operations, measured.operation[kind]),
        nullable_integers(frame, "size_class_bytes", size_class[kind]),
        new_column(frame, "count", np.bincount(key[measured.kind], minlength=len(kind))),
        *(new_column(frame, name, values) for name, values in figures.items()),
    )
    return table.select(*_COLUMNS)


class Measured(NamedTuple):
    """Rows that move bytes, and others that were asked for.

    Most rows differ in their times alone. What else there is to say of them stands once for all that are
    alike, a kind: first the columns with one entry for each kind, then those with one for each row.

    Attributes:
        row: position in the table of one of the kind.
        operation: number of its base operation in ``operations``.
        operations: names, ascending.
        size: ``message_size_bytes``.
        group_size: as stated.
        is_ok: whether it ended as it should.
        handled: nccl-tests' S, in bytes; NaN for none, and where the time for it is unknown.
        kind: which the row is of; each kind has some.
        time_ms, transfer_ms: of the row, and of its instance; NaN where the operation went on after it.
    """

    row: Ints
    operation: Ints
    operations: list[str]
    size: Floats
    group_size: Floats
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
        apart: Sequence[npt.NDArray[Any]] = (),
    ) -> Measured:
        """What was measured of a table that ``opened`` returned.

        Args:
            parts: the ``complete_instances``.
            others: base operations that are asked for too.
            apart: columns of the table; rows in which they differ are of different kinds.
        """
        named = coded_text(frame, "operation")
        row = np.flatnonzero(each_text(named, lambda name: base_operation(name) in _MOVES.union(others)))
        time_ms = durations_ms(frame)
        operations = sorted({base_operation(text) for text in named[1]})
        operation = each_text(named, lambda text: operations.index(base_operation(text)), np.int64)
        size, group_size = numbers(frame, "message_size_bytes"), numbers(frame, "group_size")
        is_ok = each_text(coded_text(frame, "status"), {OK, ""}.__contains__)
        handled = _handled_bytes(operation, operations, size, group_size)
        transfer_ms = np.full(len(frame), np.nan)
        transfer_ms[parts.row] = transfer_times_ms(parts, time_ms[parts.row], with_bytes(frame, parts))
        handled[parts.row] = _handled_by_all(parts, size[parts.row], handled[parts.row])
        handled = np.where((handled > 0) & (time_ms >= 0), handled, np.nan)
        operation[parts.row] = parts.operation
        group, _ = coded_text(frame, "group")
        alike = (operation, group, group_size, size, handled, is_ok, *apart)
        kind = dense_codes(*(column[row] for column in alike))
        some = row[any_row_of(kind)]
        return cls(
            row=some,
            operation=operation[some],
            operations=operations,
            size=size[some],
            group_size=group_size[some],
            is_ok=is_ok[some],
            handled=handled[some],
            kind=kind,
            time_ms=time_ms[row],
            transfer_ms=transfer_ms[row],
        )

    @property
    def has_bandwidth(self) -> Bools:
        """Whether rows of the kind count in ``bandwidth``."""
        return self.is_one_of(_MOVES) & self.is_ok

    @property
    def n_rows(self) -> Ints:
        """How many there are of each kind."""
        return np.bincount(self.kind, minlength=len(self.row))

    def is_one_of(self, operations: Collection[str]) -> Bools:
        """Whether the kind's base operation is in ``operations``."""
        return np.array([name in operations for name in self.operations], np.bool_)[self.operation]

    def only(self, wanted: Bools) -> Measured:
        """The rows of these kinds."""
        return self if wanted.all() else self.only_rows(wanted[self.kind])

    def only_rows(self, wanted: Bools) -> Measured:
        """These rows, and the kinds that they are of."""
        if wanted.all():  # millions of rows need no copy
            return self
        kind = self.kind[wanted]
        is_left = np.bincount(kind, minlength=len(self.row)) > 0
        return Measured(
            row=self.row[is_left],
            operation=self.operation[is_left],
            operations=self.operations,
            size=self.size[is_left],
            group_size=self.group_size[is_left],
            is_ok=self.is_ok[is_left],
            handled=self.handled[is_left],
            kind=(np.cumsum(is_left) - 1)[kind],
            time_ms=self.time_ms[wanted],
            transfer_ms=self.transfer_ms[wanted],
        )


def _handled_bytes(operation: Ints, operations: list[str], size: Floats, group_size: Floats) -> Floats:
    """S, where a rank's own bytes tell it."""
    handled = np.full(len(size), np.nan)
    for code, name in enumerate(operations):
        if name in BUS_FACTORS.keys() - _TOTAL_OF_RANKS - _MOST_OF_RANKS:
            here = operation == code
            handled[here] = algorithm_bytes(name, size[here], group_size[here])
    return handled


def _handled_by_all(parts: Instances, size: Floats, handled: Floats) -> Floats:
    """S of complete instances, whose ranks may have sent different amounts."""
    if not len(size):
        return handled
    total = parts.for_parts(np.add.reduceat(size, parts.first))
    most = parts.for_parts(np.fmax.reduceat(size, parts.first))
    cases = [parts.is_one_of(_TOTAL_OF_RANKS), parts.is_one_of(_MOST_OF_RANKS)]
    return np.select(cases, [total, most], handled)


def size_classes(sizes: Floats) -> Floats:
    """The least power of two that is no less; 0 for 0."""
    powers = 2.0 ** np.ceil(np.log2(np.maximum(sizes, 1)))
    return np.where(sizes == 0, 0, powers)


def _figures(measured: Measured, key: Ints, kind: Ints) -> dict[str, Floats]:
    """The columns of numbers, for each key of the kinds; ``kind`` has one of each."""
    n_keys = len(kind)
    key_of_row = key[measured.kind]
    time_ms, low_ms, high_ms = quantiles(measured.time_ms, key_of_row, n_keys, (0.5, 0.05, 0.95))
    transfer_ms = quantiles(measured.transfer_ms, key_of_row, n_keys, [0.5])[0]
    n_rows = measured.n_rows
    size, handled = (
        counted_quantiles(values, n_rows, key, n_keys, [0.5])[0]
        for values in (measured.size, measured.handled)
    )
    factors = _bus_factors(measured, kind)
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


def _bus_factors(measured: Measured, kind: Ints) -> Floats:
    names = [measured.operations[code] for code in measured.operation[kind]]
    factors = [bus_factor(name, n) for name, n in zip(names, measured.group_size[kind], strict=True)]
    return np.array(factors, np.float64)


def _gb_per_s(handled_bytes: Floats, time_ms: Floats) -> Floats:
    return handled_bytes / np.where(time_ms > 0, time_ms, np.nan) * 1e3 / _BYTES_PER_GB
