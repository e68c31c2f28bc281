"""What a compressed reduction takes, what it would take in full, and whether it pays."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
from rank_tables import as_polars, collective, only
from rank_tables import quick_table as table
from slow import slow
from timing_files import record

from timing_logger.analysis import compression
from timing_logger.analysis.collectives.compression import moves_bytes_or_is_work
from timing_logger.reading.csv_lines import BARE_COLUMNS
from timing_logger.schema.record import Record

DENSE_BYTES = 1_000_000


def reduction(
    seq: int = 0, compress_ms: float = 2.0, layer: str = "fc", phase: str = "sparse"
) -> list[Record]:
    """One rank's rows: 2 ms to compress, 3 ms and 20 kB to exchange, 1 ms to merge and 4 ms to unpack."""
    steps = [
        ("COMPRESS", phase, compress_ms, DENSE_BYTES, None),
        ("ALLGATHER", f"{phase} values", 1.0, 10_000, seq),
        ("ALLGATHER", f"{phase} indices", 2.0, 10_000, seq + 1),
        ("MERGE", phase, 1.0, 40_000, None),
        ("DECOMPRESS", phase, 4.0, 40_000, None),
    ]
    return [
        record(name, seq + i, ms, phase=words, message_size_bytes=size, seq=number)._replace(
            layer_name=layer, group_size=2
        )
        for i, (name, words, ms, size, number) in enumerate(steps)
    ]


def dense(*points: tuple[int, float], ranks: int = 2) -> list[Record]:
    """Full allreduces of so many bytes in so many ms."""
    return [
        record(
            "ALLREDUCE", 50 + i, ms, message_size_bytes=size, seq=50 + i, layer_name="full", group_size=ranks
        )
        for i, (size, ms) in enumerate(points)
    ]


def judged(*rows: Record) -> dict[str, Any]:
    return only(compression(table(list(rows), list(rows))))


def test_the_parts_of_a_reduction_add_up() -> None:
    found = judged(*reduction())
    assert (found["layer_name"], found["phase"], found["count"]) == ("fc", "sparse", 2)
    assert [found[f"{part}_ms"] for part in ("compress", "transfer", "decompress", "achieved")] == (
        pytest.approx([2, 3, 5, 10])
    )


def test_figures_are_of_one_reduction() -> None:
    found = judged(*reduction(0), *reduction(10, compress_ms=4))
    assert found["count"] == 4
    assert found["compress_ms"] == pytest.approx(3)
    assert found["sent_bytes"] == pytest.approx(20_000)


def test_bytes_saved_are_those_not_sent() -> None:
    found = judged(*reduction())
    assert (found["dense_bytes"], found["sent_bytes"], found["saved_bytes"]) == (1_000_000, 20_000, 980_000)


def test_the_size_of_the_gradient_is_the_median_of_those_that_were_compressed() -> None:
    rows = [record("COMPRESS", at, message_size_bytes=size) for at, size in enumerate((900, 100, 300))]
    assert judged(*rows)["dense_bytes"] == 300


def test_figures_are_unknown_where_no_reduction_was_begun_without_an_error() -> None:
    compress, *others = reduction()
    rows = [compress._replace(status="error:KeyError"), *others[:2]]
    found = judged(*rows)
    assert found["count"] == 0
    assert pd.isna([found[f"{part}_ms"] for part in ("compress", "transfer", "decompress", "achieved")]).all()
    assert math.isnan(found["sent_bytes"])
    assert pd.isna(found["pays"])


@pytest.mark.parametrize(
    ("operation", "counts"),
    [("IALLREDUCE_TOPK", True), ("H2D", True), ("COMPRESS", True), ("MERGE", True), ("FORWARD", False)],
)
def test_rows_that_move_bytes_or_are_work_for_it_are_judged(operation: str, counts: bool) -> None:
    assert moves_bytes_or_is_work(operation) is counts


def test_what_is_received_was_not_sent() -> None:
    rows = reduction()[:1]
    sent = record("SEND", 1, phase="sparse round 0", message_size_bytes=100, layer_name="fc", peer=1)
    received = record("RECV", 1, phase="sparse round 0", message_size_bytes=100, layer_name="fc", peer=0)
    assert only(compression(table([*rows, sent], [*rows, received])))["sent_bytes"] == pytest.approx(50)


def test_what_an_exchange_took_is_unknown_where_only_its_issue_was_timed() -> None:
    by_hand = record("ISEND_INDEX", 1, 0.1, phase="sparse round 0", message_size_bytes=100, layer_name="fc")
    found = only(compression(table([*reduction()[:1], by_hand])))
    assert found["sent_bytes"] == pytest.approx(100)
    assert math.isnan(found["transfer_ms"])
    assert math.isnan(found["achieved_ms"])
    assert pd.isna(found["pays"])


def test_a_dense_time_is_not_estimated_from_issues() -> None:
    by_hand = [row._replace(operation="IALLREDUCE", seq=None) for row in dense((DENSE_BYTES, 0.01))]
    assert math.isnan(judged(*reduction(), *by_hand)["dense_estimate_ms"])


@pytest.mark.slow("what is received was not sent, which is quick")
def test_a_broadcast_is_sent_by_its_root() -> None:
    rows = reduction()[:1]
    cast = collective(
        [0, 0], 1, operation="BCAST", peer=1, layer_name="fc", phase="sparse", message_size_bytes=8
    )
    assert only(compression(table([*rows, *cast[0]], [*rows, *cast[1]])))["sent_bytes"] == pytest.approx(4)


def test_waiting_for_a_late_rank_is_no_cost_of_compression() -> None:
    early, late = reduction(), reduction()
    early[1] = early[1]._replace(end_ns=early[1].start_ns + 90_000_000)
    assert only(compression(table(early, late)))["transfer_ms"] == pytest.approx(3)


def test_the_dense_time_is_that_measured_at_the_size() -> None:
    found = judged(*reduction(), *dense((DENSE_BYTES, 20.0)))
    assert (found["dense_estimate_ms"], found["extrapolated_by"]) == pytest.approx((20, 1))
    assert found["break_even"] == pytest.approx(0.5)
    assert bool(found["pays"]) is True


@pytest.mark.parametrize(("ms", "pays"), [(0.9, True), (1.0, False), (1.1, False)])
def test_compression_pays_only_where_it_takes_less_than_the_whole(ms: float, pays: bool) -> None:
    whole = record("ALLREDUCE", 1, 1.0, message_size_bytes=1, layer_name="full")
    found = only(compression(table([record("COMPRESS", 0, ms, message_size_bytes=1), whole])))
    assert (found["achieved_ms"], found["dense_estimate_ms"], found["break_even"]) == (ms, 1, ms)
    assert bool(found["pays"]) is pays


@pytest.mark.slow("a size that was held up does not pay, which is quick")
def test_compression_that_takes_longer_does_not_pay() -> None:
    assert bool(judged(*reduction(), *dense((DENSE_BYTES, 5.0)))["pays"]) is False


def test_between_sizes_bandwidth_is_interpolated_in_logarithms() -> None:
    # 0.025 GB/s at 250 kB and 0.1 GB/s at 4 MB: halfway, at 1 MB, 0.05 GB/s.
    found = judged(*reduction(), *dense((250_000, 10.0), (4_000_000, 40.0)))
    assert found["dense_estimate_ms"] == pytest.approx(20)
    assert found["extrapolated_by"] == 1


def test_a_size_that_was_held_up_is_as_quick_as_a_larger_one() -> None:
    found = judged(*reduction(), *dense((DENSE_BYTES, 40.0), (4_000_000, 5.0)))
    assert found["dense_estimate_ms"] == pytest.approx(5)
    assert bool(found["pays"]) is False


@pytest.mark.parametrize(
    ("size", "extrapolated_by", "is_said"),
    [
        (500_000, 2, True),
        (250_000, 4, False),
        pytest.param(8_000_000, 8, False, marks=pytest.mark.slow("as of a size that is too small")),
    ],
)
def test_far_from_all_sizes_measured_nothing_is_said(
    size: int, extrapolated_by: float, is_said: bool
) -> None:
    found = compression(table(*[[*reduction(), *dense((size, 10.0))]] * 2))
    assert found["extrapolated_by"].tolist() == pytest.approx([extrapolated_by])
    assert found["pays"].isna().tolist() == [not is_said]
    assert found["dense_estimate_ms"].notna().all()


def test_groups_of_another_size_say_nothing() -> None:
    found = compression(table(*[[*reduction(), *dense((DENSE_BYTES, 5.0), ranks=4)]] * 2))
    assert found["dense_estimate_ms"].isna().all()
    assert found["pays"].isna().all()


def test_speeds_can_be_taken_from_another_run() -> None:
    other = table(*[dense((DENSE_BYTES, 40.0))] * 2)
    found = only(compression(table(*[[*reduction(), *dense((DENSE_BYTES, 20.0))]] * 2), other))
    assert found["dense_estimate_ms"] == pytest.approx(40)


def test_allreduces_of_the_compressed_path_are_not_dense_ones() -> None:
    flags = record(
        "ALLREDUCE", 5, phase="sparse", layer_name="fc", message_size_bytes=64, seq=9, group_size=2
    )
    found = compression(table(*[[*reduction(), flags]] * 2))
    assert found["dense_estimate_ms"].isna().all()
    assert found["transfer_ms"].tolist() == pytest.approx([4])


# -- rows without a group, as record_mpi_operation makes them ------------------------------------------


def without_group(rows: list[Record], *, size: int | None = None) -> list[Record]:
    return [row._replace(group="", group_size=size, seq=None) for row in rows]


def test_rows_that_state_no_group_are_compared_with_each_other() -> None:
    rows = without_group([*reduction(), *dense((DENSE_BYTES, 20.0))])
    found = judged(*rows)
    assert (found["dense_estimate_ms"], found["break_even"]) == pytest.approx((20, 0.5))
    assert bool(found["pays"]) is True


@pytest.mark.slow("rows that state no group are quick")
def test_rows_that_state_no_group_are_compared_even_where_they_cannot_be_matched() -> None:
    ranks = without_group([*reduction(), *dense((DENSE_BYTES, 20.0))])
    assert only(compression(table(ranks)))["dense_estimate_ms"] == pytest.approx(20)


@pytest.mark.slow("a rarer run; where both or none state a group is quick")
def test_a_layer_without_a_group_is_compared_with_allreduces_of_as_many_ranks() -> None:
    rows = [*without_group(reduction()), *dense((DENSE_BYTES, 20.0))]
    assert judged(*rows)["dense_estimate_ms"] == pytest.approx(20)
    of_others = [*without_group(reduction()), *dense((DENSE_BYTES, 20.0), ranks=4)]
    assert math.isnan(judged(*of_others)["dense_estimate_ms"])


@pytest.mark.slow("a rarer run; where both or none state a group is quick")
def test_a_layer_of_unknown_ranks_is_compared_with_the_largest_group() -> None:
    layer = without_group([*reduction()[:1], *reduction()[3:]])
    rows = [*layer, *dense((DENSE_BYTES, 20.0)), *dense((DENSE_BYTES, 30.0), ranks=4)]
    assert judged(*rows)["dense_estimate_ms"] == pytest.approx(30)


@pytest.mark.slow("a rarer run; where both or none state a group is quick")
def test_a_layer_with_a_group_is_compared_with_allreduces_that_state_none() -> None:
    alone = [*reduction(), *without_group(dense((DENSE_BYTES, 20.0)))]
    assert only(compression(table(alone)))["dense_estimate_ms"] == pytest.approx(20)


# -- means on both sides -------------------------------------------------------------------------------


@pytest.mark.parametrize("held_up", [slow(1, "not at all"), 10])
def test_what_is_held_up_now_and_then_counts_on_both_sides(held_up: int) -> None:
    """Dense 10 ms and compressed 8 ms; in each tenth step the network is ``held_up`` times as slow."""
    rows = []
    for step in range(20):
        factor = held_up if step % 10 == 5 else 1
        exchange = [
            row._replace(end_ns=row.start_ns + 7_000_000 * factor) for row in reduction(10 * step)[1:2]
        ]
        rows += [*reduction(10 * step, compress_ms=1.0)[:1], *exchange]
        rows += [row._replace(seq=1000 + step) for row in dense((DENSE_BYTES, 10.0 * factor))]
    found = judged(*rows)
    total_ms = 20 * (1 + 7) + 2 * 7 * (held_up - 1), 20 * 10 + 2 * 10 * (held_up - 1)
    assert (found["achieved_ms"], found["dense_estimate_ms"]) == pytest.approx(
        (total_ms[0] / 20, total_ms[1] / 20)
    )
    assert bool(found["pays"]) is True


def test_a_size_counts_with_all_bytes_by_all_time() -> None:
    found = judged(*reduction(), *dense((900_000, 9.0), (1_000_000, 20.0), (1_000_000, 20.0)))
    assert found["dense_estimate_ms"] == pytest.approx(1_000_000 / (2_900_000 / 49.0))


def test_layers_are_kept_apart() -> None:
    found = compression(table([*reduction(0), *reduction(10, layer="conv", phase="dense")]))
    assert found[["layer_name", "phase"]].to_numpy().tolist() == [["conv", "dense"], ["fc", "sparse"]]


@pytest.mark.parametrize("rows", [slow([], "no rows at all"), dense((8, 1.0))])
def test_without_compression_there_are_no_rows_of_the_same_types(rows: list[Record]) -> None:
    empty = compression(table(rows))
    assert len(empty) == 0
    assert empty.dtypes.to_dict() == compression(table(reduction())).dtypes.to_dict()


def test_ten_columns_are_enough() -> None:
    bare = table(reduction())[[*BARE_COLUMNS, "rank"]]
    found = only(compression(bare))
    assert found["achieved_ms"] == pytest.approx(10)
    assert math.isnan(found["dense_estimate_ms"])


def test_polars_gives_what_pandas_gives() -> None:
    pytest.importorskip("polars")
    df = table(*[[*reduction(), *dense((DENSE_BYTES, 20.0))]] * 2)
    mine = pd.DataFrame(compression(as_polars(df)).to_dicts())
    pd.testing.assert_frame_equal(mine, compression(df), check_dtype=False)
