"""Bandwidths: nccl-tests' figures, and blanks where there is none."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
from rank_tables import as_polars, collective, only
from rank_tables import quick_table as table
from slow import slow
from timing_files import record

from timing_logger.analysis import bandwidth
from timing_logger.reading.csv_lines import BARE_COLUMNS

BANDWIDTHS = ["algbw_gb_per_s", "busbw_gb_per_s", "transfer_algbw_gb_per_s", "transfer_busbw_gb_per_s"]


def one(
    operation: str, size: int | None, elapsed_ms: float = 1.0, ranks: int | None = 4, seq: int | None = 0
) -> dict[str, Any]:
    rows = [record(operation, elapsed_ms=elapsed_ms, message_size_bytes=size, group_size=ranks, seq=seq)]
    return only(bandwidth(table(rows)))


@pytest.mark.parametrize(
    ("operation", "sent", "us", "algbw", "busbw"),
    [
        ("ALLREDUCE", 17179869184, 61974, 277.210914, 485.119099),
        ("REDUCE_SCATTER", 17179869184, 41057, 418.439467, 366.134533),
    ],
)
def test_figures_are_those_of_nccl_tests(
    operation: str, sent: int, us: int, algbw: float, busbw: float
) -> None:
    row = one(operation, sent, us / 1e3, ranks=8)
    assert (row["algbw_gb_per_s"], row["busbw_gb_per_s"]) == pytest.approx((algbw, busbw), abs=1e-6)


OTHERS = [
    ("ALLTOALL", 1, 0.75),
    ("BCAST", 1, 1),
    ("GATHER", 4, 3),
    ("SCATTER", 1, 0.75),
    ("REDUCE", 1, 1),
    ("ISEND", 1, 1),
    ("D2D", 1, 1),
]


@pytest.mark.parametrize(
    ("operation", "algbw", "busbw"),
    [
        ("ALLGATHER", 4, 3), ("RECV", 1, 1), ("H2D", 1, 1),
        *(pytest.param(*other, marks=pytest.mark.slow("bus_bytes of it is quick")) for other in OTHERS),
    ],
)  # fmt: skip
def test_a_megabyte_in_a_millisecond_on_four_ranks(operation: str, algbw: float, busbw: float) -> None:
    row = one(operation, 1_000_000)
    assert (row["algbw_gb_per_s"], row["busbw_gb_per_s"]) == pytest.approx((algbw, busbw))


@pytest.mark.parametrize(
    ("operation", "size"),
    [
        ("BARRIER", 0),
        ("SCAN", 8),
        ("BCAST", None),
        *(
            pytest.param(*other, marks=pytest.mark.slow("as these"))
            for other in (("BARRIER", None), ("ALLREDUCE", 0))
        ),
    ],
)
def test_what_moves_nothing_has_no_bandwidth(operation: str, size: int | None) -> None:
    row = one(operation, size)
    assert row["count"] == 1
    assert all(math.isnan(row[name]) for name in BANDWIDTHS)


def test_no_time_gives_no_bandwidth() -> None:
    assert all(math.isnan(one("ALLREDUCE", 8, elapsed_ms=0.0)[name]) for name in BANDWIDTHS)


def test_without_the_size_of_the_group_only_what_needs_none_is_given() -> None:
    row = one("ALLREDUCE", 1_000_000, ranks=None)
    assert row["algbw_gb_per_s"] == pytest.approx(1)
    assert math.isnan(row["busbw_gb_per_s"])


def test_a_group_that_states_no_size_has_as_many_ranks_as_its_complete_collectives() -> None:
    ranks = collective([0] * 4, 1, message_size_bytes=1_000_000, group="", group_size=None, seq=None)
    found = only(bandwidth(table(*ranks)))
    assert pd.isna(found["group_size"])
    assert found["busbw_gb_per_s"] == pytest.approx(1.5)


# -- what goes on in the background ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "operation",
    ["ISEND_INDEX", *(slow(other, "as this") for other in ("IALLREDUCE", "IRECV_INDEX", "IBCAST"))],
)
def test_a_call_that_was_timed_by_hand_covers_the_issue_and_tells_no_transfer(operation: str) -> None:
    """``with record_mpi_operation("ISEND_INDEX", ...): comm.Isend(...)`` ends before the message does."""
    row = one(operation, 1_000_000, seq=None)
    assert row["count"] == 1
    assert row["message_size_bytes"] == 1_000_000
    assert all(math.isnan(row[name]) for name in ["time_ms", "transfer_ms", *BANDWIDTHS])


def test_bandwidths_are_of_those_rows_that_cover_a_transfer() -> None:
    timed = record("ISEND", elapsed_ms=2.0, message_size_bytes=1_000_000, seq=0)
    by_hand = record("ISEND_INDEX", elapsed_ms=0.01, message_size_bytes=600_000)
    found = only(bandwidth(table([timed, by_hand])))
    assert (found["count"], found["time_ms"], found["time_p5_ms"]) == (2, 2.0, 2.0)
    assert found["algbw_gb_per_s"] == pytest.approx(0.5)


def test_issues_of_a_collective_are_no_transfer_of_it() -> None:
    ranks = collective([0, 0], 0.01, operation="IALLREDUCE_TOPK", seq=None)
    assert math.isnan(only(bandwidth(table(*ranks)))["transfer_ms"])


# -- waiting, sizes, exchanges --------------------------------------------------------------------------


def test_the_transfer_time_leaves_waiting_out() -> None:
    row = only(bandwidth(table(*collective([0, 6, 7, 9], 10, message_size_bytes=1_000_000))))
    assert (row["count"], row["time_ms"], row["transfer_ms"]) == pytest.approx((4, 3.5, 1))
    assert row["busbw_gb_per_s"] == pytest.approx(1.5 / 3.5)
    assert row["transfer_busbw_gb_per_s"] == pytest.approx(1.5)


def test_sizes_are_classed_by_powers_of_two() -> None:
    sizes = [0, 1, 1024, 1025, 2048, None]
    found = bandwidth(table([record(message_size_bytes=size) for size in sizes]))
    assert found["size_class_bytes"].isna().tolist() == [True, False, False, False, False]
    assert found["size_class_bytes"].tolist()[1:] == [0, 1, 1024, 2048]
    assert found["count"].tolist() == [1, 1, 1, 1, 2]


def test_of_uneven_exchanges_the_most_that_a_rank_sends_counts() -> None:
    rows = collective([0, 0], 1, operation="ALLTOALLV")
    rows = [[row._replace(message_size_bytes=size)] for (row,), size in zip(rows, (700, 1000), strict=True)]
    found = only(bandwidth(table(*rows)))
    assert found["algbw_gb_per_s"] == pytest.approx(1e-3)
    assert found["busbw_gb_per_s"] == pytest.approx(0.5e-3)


def test_an_exchange_that_only_some_rank_calls_uneven_is_one_for_all() -> None:
    rows = collective([0, 0], 1, operation="ALLTOALLV")
    even = rows[0][0]._replace(operation="ALLTOALL", message_size_bytes=700)
    found = only(bandwidth(table([even], [rows[1][0]._replace(message_size_bytes=1000)])))
    assert (found["operation"], found["count"]) == ("ALLTOALLV", 2)
    assert found["algbw_gb_per_s"] == pytest.approx(1e-3)


def test_of_an_uneven_allgather_all_that_is_sent_counts() -> None:
    rows = collective([0, 0], 1, operation="ALLGATHERV")
    rows = [[row._replace(message_size_bytes=size)] for (row,), size in zip(rows, (700, 1000), strict=True)]
    assert only(bandwidth(table(*rows)))["algbw_gb_per_s"] == pytest.approx(1.7e-3)


def test_an_uneven_exchange_that_is_not_complete_has_no_bandwidth() -> None:
    assert math.isnan(one("ALLTOALLV", 1000)["algbw_gb_per_s"])


def test_what_failed_is_left_out() -> None:
    rows = [record(status="error:KeyError"), record(elapsed_ms=None, status="unresolved"), record("FORWARD")]
    assert len(bandwidth(table(rows))) == 0


@pytest.mark.parametrize("rows", [slow([], "no rows at all"), [record("FORWARD")]])
def test_no_communication_gives_no_rows_of_the_same_types(rows: list[Any]) -> None:
    assert bandwidth(table(rows)).dtypes.to_dict() == bandwidth(table([record()])).dtypes.to_dict()


def test_ten_columns_are_enough() -> None:
    bare = table([record(group_size=None, message_size_bytes=1_000_000)])[[*BARE_COLUMNS, "rank"]]
    assert only(bandwidth(bare))["algbw_gb_per_s"] == pytest.approx(1)


def test_polars_gives_what_pandas_gives() -> None:
    pytest.importorskip("polars")
    df = table(*collective([0, 6, 7, 9], 10, message_size_bytes=1_000_000))
    pd.testing.assert_frame_equal(
        pd.DataFrame(bandwidth(as_polars(df)).to_dicts()), bandwidth(df), check_dtype=False
    )
