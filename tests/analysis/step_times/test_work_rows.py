"""The columns that the times of processes by step are computed from."""

from __future__ import annotations

import math

import numpy as np
import pytest
from rank_tables import quick_table as table
from timing_files import record

from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.arrays import processes_of
from timing_logger.analysis.rows.tables import opened
from timing_logger.analysis.step_times.work_rows import WorkRows
from timing_logger.schema.record import Record

NAN = math.nan


def rows_of(*records: Record, entry: list[int] | None = None) -> WorkRows:
    frame = opened(table(records), COLUMNS_OF["stragglers"])
    return WorkRows.of(frame, processes_of(frame), np.array(entry or [0] * len(frame)))


def test_the_work_of_a_copy_that_states_none_is_its_bytes() -> None:
    found = rows_of(
        record("H2D", message_size_bytes=64), record("H2D", work=3, message_size_bytes=64),
        record("FORWARD", work=5, message_size_bytes=64), record("FORWARD", message_size_bytes=64),
    )  # fmt: skip
    assert found.work == pytest.approx([64, 3, 5, NAN], nan_ok=True)
    assert rows_of(record("FORWARD", work=5)).work.tolist() == [5]


def test_what_failed_has_no_duration() -> None:
    found = rows_of(*[record("FORWARD", 1.0, 2.0, status=status) for status in ("ok", "", "error:Full")])
    assert found.elapsed_ms == pytest.approx([2, 2, NAN], nan_ok=True)


def test_only_collectives_have_a_number_in_their_group() -> None:
    found = rows_of(record("ALLREDUCE", seq=4), record("SEND", seq=5, peer=1), record("FORWARD", seq=6))
    assert found.number == pytest.approx([4, NAN, NAN], nan_ok=True)


def test_rows_outside_of_any_step_are_left_out() -> None:
    found = rows_of(*[record("FORWARD", 1.0 + at, work=at) for at in range(3)], entry=[0, -1, 1])
    assert (found.work.tolist(), found.entry.tolist()) == ([0, 2], [0, 1])


def test_rows_on_the_clock_of_a_device_are_told_and_operations_chosen_by_their_names() -> None:
    found = rows_of(record("FORWARD", clock="device"), record("DATA"))
    assert found.on_device.tolist() == [True, False]
    assert found.operations_are("DATA".__eq__).tolist() == [False, True]
