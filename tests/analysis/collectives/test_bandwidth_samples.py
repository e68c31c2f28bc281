"""Which bytes and times of rows count, and what is left of kinds where rows are left out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from rank_tables import quick_table as table
from timing_files import record

from timing_logger.analysis.collectives.bandwidth import Measured
from timing_logger.analysis.collectives.waits import complete_instances
from timing_logger.analysis.rows.tables import opened
from timing_logger.schema.record import Record


def measured(*rows: Record) -> Measured:
    frame = opened(table(list(rows)))
    return Measured.of(frame, complete_instances(frame))


@pytest.mark.parametrize(
    ("size", "ms", "handled"),
    [(0, 1.0, math.nan), (1, 1.0, 1), (8, 0.5, 8), (8, 0.0, 8), (8, None, math.nan), (None, 1.0, math.nan)],
)
def test_bytes_count_where_there_are_some_and_their_time_is_known(
    size: int | None, ms: float | None, handled: float
) -> None:
    found = measured(record(elapsed_ms=ms, message_size_bytes=size)).handled
    assert found.tolist() == pytest.approx([handled], nan_ok=True)


def test_a_kind_of_which_one_row_is_left_stays() -> None:
    found = measured(*(record(message_size_bytes=size) for size in (1, 1, 1, 2, 2, 3)))
    left = found.only_rows(np.array([True, True, False, True, False, False]))
    assert (left.size.tolist(), left.kind.tolist(), left.n_rows.tolist()) == ([1, 2], [0, 0, 1], [2, 1])
    assert left.row.tolist() == found.row[:2].tolist()
    assert (len(left.time_ms), len(left.transfer_ms)) == (3, 3)


def test_kinds_that_are_not_wanted_are_left_out_with_their_rows() -> None:
    found = measured(*(record(message_size_bytes=size) for size in (1, 2, 3, 3)))
    left = found.only(np.array([True, False, True]))
    assert (left.size.tolist(), left.kind.tolist()) == ([1, 3], [0, 1, 1])
