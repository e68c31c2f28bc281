"""The columns of rows that the times of processes by step are computed from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import coded_text, dense_codes, each_text, numbers
from timing_logger.analysis.rows.blocking import lanes_of
from timing_logger.analysis.rows.operations import is_collective, is_copy
from timing_logger.analysis.rows.table_types import Bools, Floats, Frame, Ints, Rows
from timing_logger.schema.record import DEVICE_CLOCK, OK


class WorkRows(NamedTuple):
    """The columns of rows that are in some step; one entry per row.

    Attributes:
        operations: names of operations, ascending.
        operation: index of the row's operation in ``operations``.
        process: number of the row's process.
        entry: number of the row's step of that process, from 0 and ascending with process and step.
        elapsed_ms: duration of the row; NaN where it is unknown or the operation failed.
        work: how much the row states that there was to do, of a copy also its bytes; NaN if unknown.
        size_bytes: what the row's operation sends, in bytes; NaN if unknown.
        start_s, end_s: on the time axis of the process, in seconds.
        lane: number of the row's thread or stream; no two processes have one.
        blocks: as ``lanes_of`` returns it.
        on_device: whether the row is on the clock of a device.
        group, number: the group of the row's collective, and its number there; NaN where it has none.
    """

    operations: list[str]
    operation: Ints
    process: Ints
    entry: Ints
    elapsed_ms: Floats
    work: Floats
    size_bytes: Floats
    start_s: Floats
    end_s: Floats
    lane: Ints
    blocks: Bools
    on_device: Bools
    group: Ints
    number: Floats

    @classmethod
    def of(cls, frame: Frame, process: Ints, entry: Ints) -> WorkRows:
        """Take the columns of a table.

        Args:
            frame: a table that ``opened`` returned.
            process: the number of each row's process.
            entry: the number of its step of that process; -1 outside of any step.
        """
        operation, operations = coded_text(frame, "operation")
        succeeded = each_text(coded_text(frame, "status"), {OK, ""}.__contains__)
        lanes = lanes_of(frame)
        rows = cls(
            operations=operations,
            operation=operation,
            process=process,
            entry=entry,
            elapsed_ms=np.where(succeeded, numbers(frame, "elapsed_ms"), np.nan),
            work=_work(frame, (operation, operations)),
            size_bytes=numbers(frame, "message_size_bytes"),
            start_s=numbers(frame, "start_counter"),
            end_s=numbers(frame, "end_counter"),
            lane=dense_codes(process, lanes.lane),
            blocks=lanes.blocks,
            on_device=each_text(coded_text(frame, "clock"), DEVICE_CLOCK.__eq__),
            group=coded_text(frame, "group")[0],
            number=np.where(each_text((operation, operations), is_collective), numbers(frame, "seq"), np.nan),
        )
        return rows if (entry >= 0).all() else rows.only(entry >= 0)

    def only(self, wanted: Bools | Rows) -> WorkRows:
        """Return the rows that are ``wanted``, by a mask, positions or a slice."""
        return WorkRows._make((self.operations, *(values[wanted] for values in self[1:])))

    def operations_are(self, predicate: Callable[[str], bool]) -> Bools:
        """Apply ``predicate`` to the name of each row's operation."""
        return each_text((self.operation, self.operations), predicate)


def _work(frame: Frame, operation: tuple[Ints, list[str]]) -> Floats:
    stated = numbers(frame, "work")
    of_copies = np.isnan(stated) & each_text(operation, is_copy)
    return np.where(of_copies, numbers(frame, "message_size_bytes"), stated)


# -- put columns of several parts, of which each has some, one after the other ---------------------------


def joined_columns(
    parts: Sequence[Mapping[str, Any]], lengths: Sequence[int], blank: float
) -> dict[str, Any]:
    """Return the columns of all parts, by name.

    Args:
        parts: the columns that each part has.
        lengths: how many entries those of each part have.
        blank: stands in the entries of a part for a column that it lacks.
    """
    if len(parts) == 1:
        return dict(parts[0])
    names = {name: column.dtype for part in parts for name, column in part.items()}
    return {
        name: np.concatenate(
            [part.get(name, np.full(n, blank, dtype)) for part, n in zip(parts, lengths, strict=True)]
        )
        for name, dtype in names.items()
    }
