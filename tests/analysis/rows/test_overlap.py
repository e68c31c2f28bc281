"""Which communication is hidden behind a rank's own work, and what own work is."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_tables import as_polars, only
from rank_tables import quick_table as table
from seeds import few_examples
from slow import slow
from timing_files import record

from timing_logger.analysis import efficiencies, overlap
from timing_logger.reading.csv_lines import BARE_COLUMNS
from timing_logger.schema.record import Record


def row(operation: str, start_ms: float, end_ms: float, **fields: Any) -> Record:
    return record(operation, 1 + start_ms / 1e3, end_ms - start_ms, **fields)


def figures(*rows: Record) -> dict[str, Any]:
    return only(overlap(table(list(rows))))


def test_communication_beside_own_work_is_hidden() -> None:
    found = figures(row("BACKWARD", 0, 10), row("IALLREDUCE", 6, 14))
    assert found["communication_ms"] == pytest.approx(8)
    assert (found["hidden_ms"], found["exposed_ms"]) == pytest.approx((4, 4))
    assert (found["overlap"], found["step_ms"]) == pytest.approx((0.5, 14))


def test_operations_at_the_same_time_count_once() -> None:
    found = figures(row("IALLREDUCE", 0, 6), row("IBCAST", 4, 10), row("FORWARD", 10, 11))
    assert (found["communication_ms"], found["exposed_ms"]) == pytest.approx((10, 10))


def test_a_collective_that_the_working_thread_is_blocked_in_hides_nothing() -> None:
    found = figures(row("BACKWARD", 0, 10), row("ALLREDUCE", 4, 7))
    assert (found["compute_ms"], found["exposed_ms"], found["hidden_ms"]) == pytest.approx((7, 3, 0))


def test_a_wait_inside_own_work_is_no_work() -> None:
    found = figures(row("BACKWARD", 0, 10), row("IALLREDUCE", 2, 9), row("WAIT", 6, 9))
    assert (found["compute_ms"], found["waited_ms"]) == pytest.approx((7, 3))
    assert (found["hidden_ms"], found["exposed_ms"]) == pytest.approx((4, 3))


def test_a_collective_of_another_thread_leaves_the_work_alone() -> None:
    found = figures(row("BACKWARD", 0, 10), row("ALLREDUCE", 4, 7, thread="AllReducer"))
    assert (found["compute_ms"], found["hidden_ms"]) == pytest.approx((10, 3))


def test_a_thread_that_waits_does_not_stop_the_device() -> None:
    found = figures(row("BACKWARD", 0, 10, clock="device"), row("WAIT", 4, 7))
    assert found["compute_ms"] == pytest.approx(10)


def test_copies_waits_and_reports_of_the_backend_are_no_work() -> None:
    rows = [row("H2D", 0, 1), row("WAIT", 2, 4), row("BACKEND", 5, 6), row("PROBE", 7, 8), row("DATA", 8, 9)]
    found = figures(*rows)
    assert (found["copy_ms"], found["waited_ms"], found["compute_ms"]) == pytest.approx((1, 2, 1))


@pytest.mark.parametrize(
    "name",
    [
        "FORWARD",
        "COMPRESS",
        "my part",
        *(slow(other, "as these") for other in ("OPTIMIZER", "DATA", "MERGE", "DECOMPRESS")),
    ],
)
def test_names_that_are_not_communication_are_work(name: str) -> None:
    assert figures(row(name, 0, 2))["compute_ms"] == pytest.approx(2)


def test_without_communication_there_is_no_overlap() -> None:
    assert overlap(table([row("FORWARD", 0, 2)]))["overlap"].isna().tolist() == [True]


def test_steps_and_ranks_are_kept_apart() -> None:
    rows = [row("FORWARD", 0, 2, iteration=0), row("ALLREDUCE", 1, 4, iteration=1, thread="other")]
    found = overlap(table(rows, rows[:1]))
    assert found["step_ms"].tolist() == pytest.approx([1, 3, 2])
    assert found[["rank", "iteration"]].to_numpy().tolist() == [[0, 0], [0, 1], [1, 0]]
    assert found["exposed_ms"].tolist() == pytest.approx([0, 3, 0])
    assert found["compute_ms"].tolist() == pytest.approx([2, 0, 2])


def test_rows_outside_of_any_iteration_have_a_row_of_their_own() -> None:
    assert overlap(table([row("BCAST", 0, 1, iteration=None)]))["iteration"].isna().tolist() == [True]


def test_without_instants_nothing_is_known() -> None:
    df = table([row("ALLREDUCE", 0, 1)]).assign(start_counter=math.nan, end_counter=math.nan)
    assert overlap(df)[["communication_ms", "compute_ms", "overlap", "step_ms"]].isna().all(axis=None)


def test_no_rows_give_no_rows_of_the_same_types() -> None:
    for analysis in (overlap, efficiencies):
        empty, full = analysis(table([])), analysis(table([row("FORWARD", 0, 1)]))
        assert (len(empty), len(full)) == (0, 1)
        assert empty.dtypes.to_dict() == full.dtypes.to_dict()


def test_ten_columns_are_enough() -> None:
    df = table([row("BACKWARD", 0, 10), row("ALLREDUCE", 4, 7)])[[*BARE_COLUMNS, "rank"]]
    assert only(overlap(df))["compute_ms"] == pytest.approx(7)


def test_polars_gives_what_pandas_gives() -> None:
    pytest.importorskip("polars")
    df = table([row("BACKWARD", 0, 10), row("IALLREDUCE", 6, 14)])
    mine = pd.DataFrame(overlap(as_polars(df)).to_dicts())
    pd.testing.assert_frame_equal(mine, overlap(df), check_dtype=False)


INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=8)


@few_examples(2)
@given(communication=INTERVALS, work=INTERVALS, blocked=INTERVALS)
def test_lengths_are_those_of_the_cells_that_are_covered(communication: Any, work: Any, blocked: Any) -> None:
    def cells(intervals: Any) -> set[int]:
        return {cell for start, length in intervals for cell in range(start, start + length)}

    named = [("IALLREDUCE", communication), ("FORWARD", work), ("WAIT", blocked), ("H2D", [(0, 1)])]
    rows = [row(name, a, a + length) for name, intervals in named for a, length in intervals]
    found = figures(*rows)
    if not work:
        assert pd.isna(found["compute_ms"])
        told = blocked or not communication
        exposed = len(cells(communication) & cells(blocked))
        assert found["exposed_ms"] == pytest.approx(exposed) if told else pd.isna(found["exposed_ms"])
        return
    computes = cells(work) - cells(blocked)
    assert found["compute_ms"] == pytest.approx(len(computes))
    assert found["hidden_ms"] == pytest.approx(len(cells(communication) & computes))
    assert found["exposed_ms"] == pytest.approx(len(cells(communication) - computes))
    assert found["waited_ms"] == pytest.approx(len(cells(blocked)))


# -- where no own work is logged -----------------------------------------------------------------------


def test_without_own_work_communication_is_exposed_as_long_as_somebody_is_blocked_on_it() -> None:
    """As DDP over gloo is logged by its process group alone: buckets go on, the pass waits for the last."""
    rows = [row("IALLREDUCE", 10, 60), row("IALLREDUCE", 30, 70), row("WAIT", 40, 60), row("WAIT", 60, 70)]
    found = figures(*rows)
    assert (found["communication_ms"], found["waited_ms"]) == pytest.approx((60, 30))
    assert (found["exposed_ms"], found["hidden_ms"], found["overlap"]) == pytest.approx((30, 30, 0.5))
    assert pd.isna(found["compute_ms"])


def test_without_own_work_a_call_that_returns_when_it_is_done_is_exposed() -> None:
    found = figures(row("ALLREDUCE", 0, 4))
    assert (found["exposed_ms"], found["hidden_ms"]) == pytest.approx((4, 0))


def test_without_own_work_and_waits_nobody_knows_what_is_exposed() -> None:
    """As over NCCL, whose waits are the stream's: no row tells of them."""
    found = figures(row("IALLREDUCE", 0, 4))
    assert found["communication_ms"] == pytest.approx(4)
    assert all(pd.isna(found[name]) for name in ("exposed_ms", "hidden_ms", "overlap", "compute_ms"))


def test_a_step_without_work_of_a_process_that_logs_work_has_none() -> None:
    rows = [row("FORWARD", 0, 2, iteration=0), row("IALLREDUCE", 3, 4, iteration=1)]
    found = overlap(table(rows))
    assert found["compute_ms"].tolist() == pytest.approx([2, 0])
    assert found["exposed_ms"].tolist() == pytest.approx([0, 1])


# -- how long a step lasts -----------------------------------------------------------------------------


def test_a_step_lasts_until_the_next_one_begins() -> None:
    """What is not logged at its end belongs to it."""
    rows = [row("ALLREDUCE", 100 * i + 10, 100 * i + 30, iteration=i) for i in range(3)]
    assert overlap(table(rows))["step_ms"].tolist() == pytest.approx([100, 100, 20])


def test_where_iterations_are_sampled_a_step_is_one_of_them() -> None:
    rows = [row("ALLREDUCE", 100 * i, 100 * i + 30, iteration=i) for i in (0, 10, 20)]
    assert overlap(table(rows))["step_ms"].tolist() == pytest.approx([100, 100, 30])


def test_the_last_step_of_an_epoch_lasts_to_its_last_row() -> None:
    """What comes before the next epoch, a validation say, is of no step."""
    rows = [
        row("FORWARD", 1000 * epoch + 100 * i, 1000 * epoch + 100 * i + 30, iteration=i, epoch=epoch)
        for epoch in range(2)
        for i in range(2)
    ]
    assert overlap(table(rows))["step_ms"].tolist() == pytest.approx([100, 30, 100, 30])


# -- of the run --------------------------------------------------------------------------------------


def test_efficiencies_are_those_of_pop() -> None:
    ranks = [[row("FORWARD", 0, useful), row("ALLREDUCE", useful, 10)] for useful in (8, 4, 4)]
    found = only(efficiencies(table(*ranks)))
    assert (found["ranks"], found["useful_max_ms"], found["runtime_ms"]) == pytest.approx((3, 8, 10))
    assert found["load_balance"] == pytest.approx(16 / 3 / 8)
    assert found["communication_efficiency"] == pytest.approx(0.8)
    assert found["parallel_efficiency"] == pytest.approx(16 / 3 / 10)


def test_without_own_work_there_is_no_efficiency() -> None:
    found = only(efficiencies(table([row("ALLREDUCE", 0, 1)])))
    assert math.isnan(found["load_balance"])
    assert math.isnan(found["communication_efficiency"])


def test_a_run_that_took_no_time_has_its_ranks_and_no_efficiency() -> None:
    found = only(efficiencies(table([row("FORWARD", 0, 0)], [row("FORWARD", 0, 0)])))
    assert found.pop("ranks") == 2
    assert len(found) == 6
    assert all(math.isnan(figure) for figure in found.values())
