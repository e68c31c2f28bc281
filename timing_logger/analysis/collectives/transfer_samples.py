"""Collect the rows that move bytes, with sizes and times: the input of ``bandwidth`` and ``compression``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.collectives.matching import Instances, transfer_times_ms, with_bytes
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
from timing_logger.analysis.rows.grouping import any_row_of
from timing_logger.analysis.rows.intervals import durations_ms
from timing_logger.analysis.rows.operations import (
    BUS_FACTORS,
    COMMUNICATION,
    COPIES,
    algorithm_bytes,
    base_operation,
)
from timing_logger.schema.record import OK

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
    def has_bandwidth(self) -> Bools:
        """Whether the rows of each kind count in ``bandwidth``."""
        return self.is_one_of(MOVES) & self.is_ok

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
