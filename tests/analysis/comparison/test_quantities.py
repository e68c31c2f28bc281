"""What an average rank spends an average step on: how it is summed, and what is kept of much."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from timing_logger.analysis.comparison.quantities import (
    CountedSteps,
    Key,
    SpentByProcess,
    SpentOn,
    StepLength,
    _longest,
    _median_with_zeros,
    joined_quantities,
    spent_in,
)
from timing_logger.analysis.rows.tables import opened

COLUMNS = [
    "rank", "incarnation", "operation", "phase", "group", "layer_name", "thread", "elapsed_ms",
    "message_size_bytes", "start_counter", "end_counter",
]  # fmt: skip


def of(operation: str, kind: str = "operation", layer: str = "") -> Key:
    return kind, operation, "", "", layer


def spent_by(rows: list[tuple[Any, ...]], n_steps: int = 2, **columns: Any) -> list[SpentByProcess]:
    """Return what processes spent by rows of rank, step, operation, layer, time in ms and bytes."""
    rank, step, operation, layer, ms, size = zip(*rows, strict=True)
    table = pd.DataFrame({
        "rank": rank, "operation": operation, "layer_name": layer, "elapsed_ms": ms, "phase": "", "group": "",
        "message_size_bytes": pd.array(size, dtype="Int64"), "thread": "t",
        "start_counter": np.arange(len(rank)) * 1.0, "end_counter": np.arange(len(rank)) + 0.5, **columns,
    })  # fmt: skip
    lengths = [StepLength(n_steps, 0, math.nan, math.nan)] * (max(rank) + 1)
    every = np.arange(len(rank))
    steps = CountedSteps(every, np.array(rank), np.array(step), lengths, None, "iterations")
    return spent_in(opened(table, COLUMNS), steps)


def test_time_rows_and_bytes_are_summed_by_operation_and_by_layer() -> None:
    (found,) = spent_by([
        (0, 0, "ALLREDUCE", "a", 3.0, 100), (0, 0, "ALLREDUCE", "b", 2.0, None),
        (0, 1, "ALLREDUCE", "a", 7.0, 50), (0, 1, "FORWARD", "", 4.0, None),
    ])  # fmt: skip
    assert found.spent == {
        of("ALLREDUCE"): SpentOn(12.0, 3, 150.0, 2, 6.0),
        of("FORWARD"): SpentOn(4.0, 1, 0.0, 0, 2.0),
        of("ALLREDUCE", "layer", "a"): SpentOn(10.0, 2, 150.0, 2, 5.0),
        of("ALLREDUCE", "layer", "b"): SpentOn(2.0, 1, 0.0, 0, 1.0),
    }
    assert found.n_more == 0


def test_each_process_has_what_it_spent_itself() -> None:
    first, second = spent_by([(0, 0, "FORWARD", "", 3.0, None), (1, 0, "FORWARD", "", 5.0, None)], n_steps=1)
    assert first.spent == {of("FORWARD"): SpentOn(3.0, 1, 0.0, 0, 3.0)}
    assert second.spent == {of("FORWARD"): SpentOn(5.0, 1, 0.0, 0, 5.0)}


@pytest.mark.parametrize("ms", [math.nan, math.inf, -1.0])
def test_a_row_of_unknown_duration_counts_without_time(ms: float) -> None:
    (found,) = spent_by([(0, 0, "FORWARD", "", ms, 8), (0, 0, "FORWARD", "", 2.0, 8)], n_steps=1)
    assert found.spent == {of("FORWARD"): SpentOn(2.0, 2, 16.0, 2, 2.0)}


@pytest.mark.parametrize(("operation", "ms"), [("WAIT", 2.0), ("FORWARD", 4.0)])
def test_waits_of_one_call_share_a_time_that_counts_once(operation: str, ms: float) -> None:
    rows = [(0, 0, operation, "", 2.0, None)] * 2
    (found,) = spent_by(rows, n_steps=1, start_counter=1.0, end_counter=1.002)
    assert found.spent[of(operation)].ms == ms


@pytest.mark.parametrize(
    ("values", "n", "median"),
    [
        ([], 3, 0.0), ([4.0], 3, 0.0), ([4.0, 6.0], 3, 4.0), ([4.0, 6.0], 4, 2.0), ([6.0, 4.0, 9.0], 3, 6.0),
        ([4.0, 6.0, 9.0], 4, 5.0), ([8.0, 2.0], 2, 5.0), ([4.0], 2, 2.0), ([4.0], 1, 4.0),
    ],
)  # fmt: skip
def test_in_steps_without_it_an_operation_takes_nothing(values: list[float], n: int, median: float) -> None:
    assert _median_with_zeros(np.array(values), n) == median


def spent(ms: float, of_bytes: float = 0.0, n_sizes: float = 0.0) -> SpentOn:
    return SpentOn(ms, 2.0, of_bytes, n_sizes, ms / 2)


def test_what_took_longest_is_kept_then_what_moved_most_then_by_name() -> None:
    by_key = {
        of("A"): spent(1.0),
        of("D"): spent(2.0, 5.0),
        of("C"): spent(2.0, 5.0),
        of("B"): spent(2.0, 9.0),
    }
    kept, n_more = _longest(by_key, 3)
    assert [key[1] for key in kept] == ["B", "C", "D"]
    assert n_more == 1
    assert _longest(by_key, 9)[1] == 0


def test_an_average_rank_in_an_average_step_is_what_all_spent_by_steps_and_processes() -> None:
    processes = [
        SpentByProcess({of("A"): spent(8.0, 100.0, 1.0), of("B"): spent(1.0)}, 3),
        SpentByProcess({of("A"): spent(4.0), of("L", "layer", "x"): spent(2.0)}, 5),
    ]
    quantities, n_more = joined_quantities(processes, 4)
    assert [(one.kind, one.operation) for one in quantities] == [
        ("operation", "A"), ("operation", "B"), ("layer", "L"),
    ]  # fmt: skip
    assert tuple(quantities[0])[5:] == (None, 3.0, 3.0, 1.0, 25.0)
    assert tuple(quantities[1])[5:] == (None, 0.25, 0.25, 0.5, None)
    assert n_more == 5


def test_of_each_kind_forty_are_kept_and_the_others_counted() -> None:
    many = {of(f"O{i:02}", kind, kind): spent(float(i)) for kind in ("operation", "layer") for i in range(43)}
    quantities, n_more = joined_quantities([SpentByProcess(many, 0)], 1)
    assert [one.kind for one in quantities] == ["operation"] * 40 + ["layer"] * 40
    assert (quantities[0].operation, quantities[39].operation) == ("O42", "O03")
    assert n_more == 6
    assert joined_quantities([], 1) == ([], 0)


def test_of_a_process_five_times_as_many_are_kept_as_of_a_run() -> None:
    (found,) = spent_by([(0, 0, f"O{i:03}", "", 1.0 + i, None) for i in range(203)], n_steps=1)
    assert len(found.spent) == 200
    assert found.n_more == 3
    assert of("O002") not in found.spent


@pytest.mark.parametrize("kind", ["operation", "layer"])
def test_forty_of_a_kind_are_kept_those_that_take_longest(kind: str) -> None:
    spent = {of(f"OP{at}", kind, f"layer{at}"): SpentOn(1.0 + at, 1, 0.0, 0, 1.0) for at in range(42)}
    found, n_left_out = joined_quantities([SpentByProcess(spent, 3)], 1)
    assert [one.operation for one in found] == [f"OP{at}" for at in range(41, 1, -1)]
    assert n_left_out == 2 + 3
