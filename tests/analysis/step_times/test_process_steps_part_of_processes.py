"""The rows of processes are of steps that are counted where none are recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from rank_tables import quick_table as table
from timing_files import record

from timing_logger.analysis.accounting.part import PLACE
from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.arrays import processes_of
from timing_logger.analysis.rows.tables import opened
from timing_logger.analysis.step_times.process_steps import _counted, _entries, map_step_times
from timing_logger.schema.record import Record

NAN = math.nan


def counted(*ranks: Sequence[Record]) -> list[float]:
    frame = opened(table(*ranks), COLUMNS_OF["stragglers"])
    return np.nan_to_num(_counted(processes_of(frame), frame), nan=-1).tolist()


LOOP = [
    record(operation, i + at, 100, iteration=None)
    for i in range(60)
    for at, operation in ((1.0, "FORWARD"), (1.5, "ALLREDUCE"))
]


def test_who_reduces_in_a_loop_is_in_the_rounds_of_it() -> None:
    assert counted(LOOP) == [float(i) for i in range(60) for _ in range(2)]


def test_in_a_process_without_rounds_rows_of_each_kind_are_counted() -> None:
    kinds = [("FORWARD", "a"), ("FORWARD", "b"), ("FORWARD", "a"), ("DATA", "a"), ("FORWARD", "a")]
    alone = [
        record(operation, 1.0 + at, 100, layer_name=layer, iteration=None)
        for at, (operation, layer) in enumerate(kinds)
    ]
    assert counted(alone) == [0, 0, 1, 0, 2]
    assert counted(LOOP, alone)[120:] == [0, 0, 1, 0, 2]


def test_steps_are_numbered_process_by_process_in_order_and_rows_of_none_have_none() -> None:
    process, number = np.array([0, 1, 0, 0, 1, 0]), np.array([9.0, 2.0, 4.0, NAN, 2.0, 9.0])
    entry, steps = _entries(process, number, np.array([1.0, 5.0, 0.0, 7.0, 5.0, 1.0]))
    assert entry.tolist() == [1, 2, 0, -1, 2, 1]
    assert [column.tolist() for column in steps] == [[0, 0, 1], [4, 9, 2], [0, 1, 5]]


@pytest.mark.parametrize(
    ("operation", "clock", "on_device"),
    [("FORWARD", "device", True), ("FORWARD", "host", False), ("ALLREDUCE", "device", False)],
)
def test_work_is_on_the_device_if_a_row_of_own_work_is_on_its_clock(
    operation: str, clock: str, on_device: bool
) -> None:
    rows = table([record(operation, clock=clock), record("DATA", 2.0)])
    assert map_step_times(rows).on_device is on_device


def test_rows_of_communication_keep_the_place_of_their_step_in_their_process() -> None:
    def calls(*iterations: int | None) -> list[Record]:
        return [record("BARRIER", 1.0 + at, iteration=it, seq=at) for at, it in enumerate(iterations)]

    part = map_step_times(table(calls(4, None, 3), calls(7, 7, None)))
    assert part.communication.rows[0][PLACE].tolist() == [1, -1, 0, 0, 0, -1]


def test_one_row_of_an_iteration_is_enough_for_steps_to_be_iterations() -> None:
    assert map_step_times(table([record("FORWARD", iteration=7)])).has_iterations
    assert not map_step_times(table([record("FORWARD", iteration=None)])).has_iterations
