"""The figures of the summary: what they count, and when a rank stands out."""

from __future__ import annotations

import importlib.util
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from late_ranks import STEPS, late_by, noise, steps
from rank_tables import only
from rank_tables import quick_table as table
from seeds import seeds
from slow import slow
from timing_files import record, write_sidecar, write_timing_file

from timing_logger import read_timings
from timing_logger.analysis import (
    base_operation,
    bus_bytes,
    compare_counters,
    is_communication,
    overview,
    spread_between_ranks,
    summarize,
    summarize_ranks,
    summarize_statuses,
    synchronises_all_ranks,
)
from timing_logger.analysis.rows.intervals import union_length
from timing_logger.errors import ConfigurationError
from timing_logger.schema.record import Record
from timing_logger.schema.sidecar import Counters

# -- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("ALLREDUCE", "ALLREDUCE"),
        ("ALLREDUCE_DENSE", "ALLREDUCE"),
        ("IALLREDUCE", "ALLREDUCE"),
        ("allreduce_dense", "ALLREDUCE"),
        ("ALLGATHER_VALUES", "ALLGATHER"),
        ("ALLGATHERV_TOPK", "ALLGATHERV"),
        ("ISEND_INDEX", "SEND"),
        ("IRECV", "RECV"),
        ("SENDRECV", "SENDRECV"),
        ("REDUCE_SCATTER", "REDUCE_SCATTER"),
        ("REDUCE_SCATTER_GRADS", "REDUCE_SCATTER"),
        ("REDUCE", "REDUCE"),
        ("REDUCE_LOSS", "REDUCE"),
        ("ALL_REDUCE", "ALLREDUCE"),
        ("BROADCAST_PARAMETERS", "BCAST"),
        ("WAIT", "WAIT"),
        ("BACKEND", "BACKEND"),
        ("H2D", "H2D"),
        ("IPSEND", "SEND"),
        ("IMPROBE", "MPROBE"),
        ("NEIGHBOR_ALLGATHERV", "NEIGHBOR_ALLGATHERV"),
        ("INFERENCE", "INFERENCE"),
        ("SENDER", "SENDER"),
        ("", ""),
    ],
)
def test_the_base_operation_is_found_in_a_name(name: str, base: str) -> None:
    assert base_operation(name) == base


def test_waiting_and_copying_are_no_communication() -> None:
    names = ["ALLREDUCE_DENSE", "ISEND_INDEX", "BARRIER", "WAIT", "H2D", "COMPRESS", "FORWARD"]
    assert list(map(is_communication, names)) == [True, True, True, False, False, False, False]


def test_what_the_backend_measured_is_no_communication_a_second_time() -> None:
    rows = [record("ALLREDUCE", 1.0, 500, seq=0), record("BACKEND", 1.25, 500, seq=0)]
    assert not is_communication("BACKEND")
    assert not synchronises_all_ranks("BACKEND")
    assert only(summarize_ranks(table(rows)))["communication_ms"] == pytest.approx(500)


def test_messages_and_rooted_operations_do_not_synchronise_all_ranks() -> None:
    names = ["IALLREDUCE", "BARRIER", "ALLTOALL", "BCAST", "REDUCE", "SEND", "WAIT"]
    assert list(map(synchronises_all_ranks, names)) == [True, True, True, False, False, False, False]


@pytest.mark.parametrize(
    ("name", "message_size_bytes", "seconds", "bus_bandwidth_gb_per_s"),
    [("ALLREDUCE", 17179869184, 61974e-6, 485.119099), ("REDUCE_SCATTER", 17179869184, 41057e-6, 366.134533)],
)
def test_bytes_on_the_bus_are_those_of_nccl_tests(
    name: str, message_size_bytes: int, seconds: float, bus_bandwidth_gb_per_s: float
) -> None:
    found = bus_bytes(name, message_size_bytes, group_size=8) / seconds / 1e9
    assert found == pytest.approx(bus_bandwidth_gb_per_s, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("ALLREDUCE_DENSE", 150), ("ALLGATHER", 300), ("ALLGATHERV", 300), ("ALLTOALLV", 75), ("SCATTER", 75),
        ("IBCAST", 100), ("SEND", 100), ("ISEND_INDEX", 100), ("SENDRECV", 100),
    ],
)  # fmt: skip
def test_bytes_on_the_bus_of_four_ranks(name: str, found: float) -> None:
    assert bus_bytes(name, 100, 4) == found


@pytest.mark.parametrize(
    ("name", "size", "ranks"),
    [("BARRIER", 0, 4), ("RECV", 100, 4), ("WAIT", 100, 4), ("SEND", float("nan"), 4), ("SEND", 100, 0)],
)
def test_what_moves_nothing_has_no_bytes_on_the_bus(name: str, size: float, ranks: int) -> None:
    assert math.isnan(bus_bytes(name, size, ranks))


# -- per operation and rank ------------------------------------------------------------------------


def test_an_operation_is_counted_and_summed() -> None:
    durations = [1.0, 2.0, 3.0, 10.0]
    rows = [record(start_s=i, elapsed_ms=ms, message_size_bytes=100 * i) for i, ms in enumerate(durations)]
    row = only(summarize(table(rows)))
    assert (row["operation"], row["rank"], row["count"], row["bytes"]) == ("ALLREDUCE", 0, 4, 600)
    assert (row["p50_ms"], row["total_ms"]) == (2.5, 16.0)
    assert row["p99_ms"] == pytest.approx(np.quantile(durations, 0.99))
    assert row["wall_share"] == pytest.approx(0.016 / 3.010)


def test_the_operation_with_the_most_time_over_all_ranks_comes_first() -> None:
    quick_on_0 = [record("A", elapsed_ms=3), record("B", elapsed_ms=2)]
    summary = summarize(table(quick_on_0, [record("B", elapsed_ms=2)]))
    assert summary[["operation", "rank"]].to_numpy().tolist() == [["B", 0], ["B", 1], ["A", 0]]


def test_a_record_without_a_duration_counts_but_has_no_part_in_the_quantiles() -> None:
    row = only(summarize(table([record(elapsed_ms=2.0), record(elapsed_ms=None)])))
    assert (row["count"], row["p50_ms"], row["total_ms"]) == (2, 2.0, 2.0)


def test_what_ended_otherwise_than_ok_is_counted_by_operation_and_status() -> None:
    ok, raised = record("SEND"), record("SEND", status="error:KeyError")
    unresolved = record("FORWARD", elapsed_ms=None, status="unresolved")
    found = summarize_statuses(table([ok, raised, ok, unresolved], [raised, unresolved]))
    assert found.to_dict("records") == [
        {"operation": "FORWARD", "status": "unresolved", "count": 2, "of": 2},
        {"operation": "SEND", "status": "error:KeyError", "count": 2, "of": 4},
    ]


def test_every_figure_of_an_operation_is_that_of_numpy() -> None:
    durations = [random.Random(3).uniform(0, 9) for _ in range(50)]
    row = only(summarize(table([record(start_s=10 * i, elapsed_ms=ms) for i, ms in enumerate(durations)])))
    exact = np.round(durations, 6)
    assert row["mean_ms"] == pytest.approx(exact.mean())
    assert row["max_ms"] == pytest.approx(exact.max())
    for name, quantile in (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99)):
        assert row[name] == pytest.approx(np.quantile(exact, quantile))


@pytest.mark.parametrize(
    "name",
    [
        "operation",
        "iteration",
        *(slow(other, "as these") for other in ("group", "rank", "incarnation", "phase", "layer_name")),
    ],
)
def test_rows_can_be_summed_by_any_of_these_columns(name: str) -> None:
    rows = [record(), record("SEND", iteration=None, phase="sparse", layer_name="b", group="")]
    df = table(rows, rows)
    found = summarize(df, [name])
    expected = df.groupby(name, dropna=False)["elapsed_ms"].sum()
    assert found["total_ms"].sum() == pytest.approx(4)
    assert sorted(found["total_ms"]) == pytest.approx(sorted(expected))
    assert set(found[name].astype(str)) == set(df[name].astype(str))


def test_the_share_of_several_ranks_is_that_of_all_their_time() -> None:
    rows = [[record("A", 0.0, 500), record("B", 1.0, 1000)], [record("A", 0.0, 2000)]]
    found = summarize(table(*rows), ["operation"]).set_index("operation")["wall_share"]
    assert found["A"] == pytest.approx(2.5 / 4)
    assert found["B"] == pytest.approx(1 / 2)


def test_by_other_columns_the_order_is_ascending() -> None:
    df = table([record("A", elapsed_ms=9, iteration=2), record("B", iteration=1), record(iteration=None)])
    assert summarize(df, ["iteration", "operation"])["operation"].tolist() == ["ALLREDUCE", "B", "A"]


@pytest.mark.parametrize("by", [[], ["thread"], "operation"])
def test_by_must_name_columns_to_sum_by(by: Any) -> None:
    with pytest.raises(ConfigurationError, match="name some of the columns operation, rank"):
        summarize(table([record()]), by)


def test_bytes_are_unknown_if_no_record_states_any() -> None:
    assert math.isnan(only(summarize(table([record("BARRIER", message_size_bytes=None)])))["bytes"])


def test_incarnations_are_kept_apart() -> None:
    df = table([record()], [record()], incarnations=[1, 2]).assign(rank=0)
    assert summarize(df)["incarnation"].tolist() == [1, 2]
    assert summarize_ranks(df)["incarnation"].tolist() == [1, 2]


def test_a_table_without_the_column_incarnation_is_understood() -> None:
    df = table([record()]).drop(columns="incarnation")
    assert summarize(df)["incarnation"].tolist() == summarize_ranks(df)["incarnation"].tolist() == [1]


OF_FOUR = "the sums and the spread are quick"
FOUR = [summarize, slow(summarize_ranks, OF_FOUR), slow(summarize_statuses, OF_FOUR), spread_between_ranks]


@pytest.mark.parametrize("analysis", FOUR)
def test_no_rows_give_no_rows_of_the_same_types(analysis: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    rows = [[record(iteration=i, group_size=2) for i in range(3)] + [record(status="unresolved")]] * 2
    empty, full = analysis(table([])), analysis(table(*rows))
    assert len(empty) == 0
    assert len(full) > 0
    assert empty.dtypes.to_dict() == full.dtypes.to_dict()


@pytest.mark.parametrize("analysis", FOUR)
def test_the_table_given_is_left_alone(analysis: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    df = table([record(iteration=i) for i in range(3)], [record(iteration=i) for i in range(3)])
    before = df.copy(deep=True)
    analysis(df)
    pd.testing.assert_frame_equal(df, before)


@pytest.mark.skipif(importlib.util.find_spec("polars") is None, reason="polars is not installed")
@pytest.mark.parametrize("analysis", FOUR)
def test_polars_gives_what_pandas_gives(analysis: Callable[[Any], Any]) -> None:
    import polars

    rows = [record(start_s=i / 10, iteration=i, elapsed_ms=i or None) for i in range(30)]
    df = table(rows, [*rows, record("WAIT", message_size_bytes=None)])
    columns = {name: df[name].astype(object).where(df[name].notna(), None).tolist() for name in df}
    result = analysis(polars.DataFrame(columns, infer_schema_length=None))
    assert isinstance(result, polars.DataFrame)
    for polars_row, pandas_row in zip(result.to_dicts(), analysis(df).to_dict("records"), strict=True):
        assert polars_row == pytest.approx(pandas_row, nan_ok=True)


# -- per rank ----------------------------------------------------------------------------------------


def test_a_rank_is_totalled() -> None:
    rows = [
        record("BCAST", 0.0, 100, iteration=None),
        record("ALLREDUCE", 1.0, 500, iteration=0),
        record("SEND", 1.25, 500, iteration=0),
        record("WAIT", 1.0, 750, iteration=0),
        record("FORWARD", 2.0, 2000, iteration=1),
    ]
    row = only(summarize_ranks(table(rows)))
    assert (row["rows"], row["iterations"], row["wall_s"]) == (5, 2, 4.0)
    assert row["communication_ms"] == pytest.approx(100 + 750)
    assert row["communication_share"] == pytest.approx(0.85 / 4)
    assert row["waited_ms"] == 750


def test_a_rank_without_iterations_has_none_and_each_iteration_of_others_counts_once() -> None:
    without = [record("FORWARD", 1.0, iteration=None)]
    some = [record("FORWARD", 1.0 + at, iteration=it) for at, it in enumerate([3, 3, 5])]
    found = summarize_ranks(table(without, some, without))
    assert dict(zip(found["rank"], found["iterations"], strict=True)) == {0: 0, 1: 2, 2: 0}


def test_requests_that_one_call_waited_for_are_waited_for_once() -> None:
    together = [record("WAIT", 1.0, 500), record("WAIT", 1.0, 500)]
    alone = [record("WAIT", 2.0, 250), record("WAIT", 1.0, 500, thread="another")]
    rows = table([*together, *alone])
    assert only(summarize_ranks(rows))["waited_ms"] == 1250
    assert only(summarize(rows))["total_ms"] == 1250
    assert only(summarize(rows))["count"] == 4


def test_waits_without_instants_are_not_taken_for_one() -> None:
    rows = table([record("WAIT", 1.0, 500), record("WAIT", 2.0, 250)])
    unplaced = rows.assign(start_counter=float("nan"), end_counter=float("nan"))
    assert only(summarize_ranks(unplaced))["waited_ms"] == 750


def test_a_rank_that_does_not_communicate_spends_no_time_on_it() -> None:
    assert only(summarize_ranks(table([record("FORWARD")])))["communication_ms"] == 0


def test_times_are_unknown_without_instants() -> None:
    df = table([record(), record()]).assign(start_counter=math.nan, end_counter=math.nan)
    row = only(summarize_ranks(df))
    assert math.isnan(row["wall_s"])
    assert math.isnan(row["communication_ms"])
    assert math.isnan(only(summarize(df))["wall_share"])


@pytest.mark.parametrize("seed", seeds(20, few=4))
def test_the_union_is_as_long_as_the_cells_that_it_covers(seed: int) -> None:
    draw = random.Random(seed)
    starts = [draw.randrange(100) for _ in range(15)]
    ends = [start + draw.randrange(12) for start in starts]
    covered = {cell for start, end in zip(starts, ends, strict=True) for cell in range(start, end)}
    assert union_length(np.array(starts, float), np.array(ends, float)) == len(covered)


def test_an_interval_that_ends_before_it_starts_covers_nothing() -> None:
    assert union_length(np.array([0.0, 5.0]), np.array([1.0, 4.0])) == 1.0


def test_the_union_of_nothing_is_nothing() -> None:
    assert union_length(np.array([]), np.array([])) == 0.0


# -- the rank that stands out ------------------------------------------------------------------------


def standing_out(rows: list[list[Record]]) -> list[int]:
    spread = spread_between_ranks(table(*rows))
    return [int(rank) for rank in spread[spread["stands_out"]]["least_rank"]]


def test_a_rank_that_arrives_last_has_the_least_time() -> None:
    row = only(spread_between_ranks(table(*steps(late_by(30, 2)))))
    assert (row["operation"], row["group"], row["ranks"], row["steps"]) == (
        "ALLREDUCE_DENSE",
        "world",
        4,
        STEPS,
    )
    assert (row["least_rank"], row["least_in_steps"], row["stands_out"]) == (2, STEPS, True)
    assert row["least_ms"] == pytest.approx(STEPS)
    assert row["others_min_ms"] <= row["others_median_ms"] <= row["others_max_ms"]
    assert row["ratio"] == pytest.approx(row["others_median_ms"] / row["least_ms"])


@pytest.mark.parametrize("rank", [0, *(slow(other, "another of the four") for other in (1, 2, 3))])
def test_the_late_rank_is_the_one_that_stands_out(rank: int) -> None:
    assert standing_out(steps(late_by(10, rank))) == [rank]


def test_one_of_two_ranks_can_stand_out() -> None:
    assert standing_out(steps(late_by(10, 1), ranks=2)) == [1]


def test_no_rank_stands_out_among_healthy_ones() -> None:
    assert standing_out(steps(noise)) == []


def test_no_rank_stands_out_when_two_are_late() -> None:
    assert standing_out(steps(late_by(30, 1, 2))) == []


def test_no_rank_stands_out_when_they_take_turns() -> None:
    assert standing_out(steps(lambda rank, step: noise(rank, step) + 30 * (step % 4 == rank))) == []


def test_one_late_start_makes_no_rank_stand_out() -> None:
    assert (
        standing_out(steps(lambda rank, step: noise(rank, step) + 10_000 * (rank == 1 and step == 0))) == []
    )


def test_no_rank_stands_out_in_too_few_steps() -> None:
    assert standing_out(steps(late_by(30, 2), n_steps=19)) == []
    assert standing_out(steps(late_by(30, 2), n_steps=20)) == [2]


def test_no_rank_stands_out_by_a_time_that_does_not_matter() -> None:
    rows = [[*records, record("FORWARD", 0.0, 10_000_000)] for records in steps(late_by(10, 2))]
    assert standing_out(rows) == []


def test_ranks_cannot_be_compared_when_one_of_the_group_is_missing() -> None:
    rows = steps(late_by(30, 2), group_size=5)
    assert len(spread_between_ranks(table(*rows))) == 0


def test_ranks_cannot_be_compared_across_incarnations() -> None:
    rows = steps(late_by(30, 2))
    df = table(*rows, *rows, incarnations=[1, 1, 1, 1, 2, 2, 2, 2])
    assert len(spread_between_ranks(df.assign(rank=df["rank"] % 4))) == 0


def test_steps_that_a_rank_lacks_are_not_compared() -> None:
    rows = steps(late_by(30, 2))
    rows[0] = rows[0][:30]
    assert only(spread_between_ranks(table(*rows)))["steps"] == 30


def test_records_without_an_iteration_are_compared_by_seq() -> None:
    rows = steps(late_by(30, 2), iteration=None)
    assert len(spread_between_ranks(table(*rows))) == 0
    numbered = [[row._replace(seq=seq) for seq, row in enumerate(records)] for records in rows]
    assert standing_out(numbered) == [2]


def test_ranks_with_other_sizes_in_an_unnamed_group_are_not_compared() -> None:
    rows = steps(late_by(30, 2), group="", group_size=None)
    assert standing_out(rows) == [2]
    rows[2] = [row._replace(message_size_bytes=1) for row in rows[2]]
    assert len(spread_between_ranks(table(*rows))) == 0


def test_failed_operations_are_not_compared() -> None:
    assert len(spread_between_ranks(table(*steps(late_by(30, 2), status="error:Exception")))) == 0


def test_groups_are_compared_each_for_itself() -> None:
    left, right = steps(late_by(30, 0), ranks=2, group="left"), steps(noise, ranks=2, group="right")
    spread = spread_between_ranks(table(*left, *right))
    assert spread[["group", "stands_out"]].to_numpy().tolist() == [["left", True], ["right", False]]


def test_operations_that_do_not_synchronise_are_not_compared() -> None:
    rows = [[row._replace(operation="BCAST") for row in records] for records in steps(late_by(30, 2))]
    assert len(spread_between_ranks(table(*rows))) == 0


# -- counters -------------------------------------------------------------------------------------


def test_counters_stand_beside_the_rows_read(tmp_path: Path) -> None:
    path = write_timing_file(tmp_path, 0, [record(), record()])
    write_sidecar(path, counters=Counters(7, 3, 3, 1), closed=False)
    with pytest.warns(UserWarning, match="its logger wrote"):
        files = read_timings(tmp_path).attrs["files"]
    assert compare_counters(files) == [
        {
            "rank": 0, "incarnation": 1, "file": "timing-rank0.csv", "rows": 2, "has_sidecar": True,
            "accepted": 7, "written": 3, "dropped": 3, "pending": 1, "closed": False, "agrees": False,
        }
    ]  # fmt: skip


@pytest.mark.slow("a sidecar without counters is quick")
def test_without_a_sidecar_the_counters_are_unknown(tmp_path: Path) -> None:
    write_timing_file(tmp_path, 0, [record()])
    (counters,) = overview(read_timings(tmp_path)).counters
    assert counters["has_sidecar"] is False
    assert {counters[name] for name in ("accepted", "dropped", "closed", "agrees")} == {None}


@pytest.mark.parametrize(
    "text",
    ['{"counters": 3}', *(slow(other, "as it") for other in ("{}", '{"counters": {}}', '{"closed": []}'))],
)
def test_a_sidecar_without_counters_is_endured(tmp_path: Path, text: str) -> None:
    path = write_timing_file(tmp_path, 0, [record()])
    path.with_suffix(".meta.json").write_text(text)
    (counters,) = compare_counters(read_timings(tmp_path).attrs["files"])
    assert (counters["has_sidecar"], counters["written"], counters["agrees"]) == (True, None, None)
