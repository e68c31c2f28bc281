"""A run is held against what a benchmark reached, at the same operation and size only."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from timing_logger.analysis.collectives.bandwidth import Benchmark, Point, with_expectation

MIB = 2**20


def table(
    operation: str = "ALLREDUCE", size: float = MIB, ranks: int | None = 2, transfer: float = 5.0
) -> pd.DataFrame:
    return pd.DataFrame({
        "operation": [operation], "group": ["world"], "group_size": pd.array([ranks], "Int64"),
        "message_size_bytes": [size], "busbw_gb_per_s": [4.0], "transfer_busbw_gb_per_s": [transfer],
    })  # fmt: skip


def share(bandwidth: pd.DataFrame, *points: Point) -> float:
    return float(with_expectation(bandwidth, Benchmark("IMB", points))["share_of_expected"].iloc[0])


def point(size: float, gb_per_s: float, operation: str = "ALLREDUCE", ranks: int | None = 2) -> Point:
    return Point(operation, size, size / gb_per_s / 1e3, ranks, None)


def test_the_share_is_that_of_the_transfer_where_it_is_known() -> None:
    assert share(table(), point(MIB, 10.0)) == pytest.approx(0.5)
    assert share(table(transfer=math.nan), point(MIB, 10.0)) == pytest.approx(0.4)


def test_between_two_sizes_logarithms_are_interpolated() -> None:
    assert share(table(), point(MIB / 4, 1.0), point(MIB * 4, 100.0)) == pytest.approx(0.5)


@pytest.mark.parametrize("size", [MIB / 2, MIB * 2])
def test_outside_of_the_sizes_that_were_measured_nothing_is_expected(size: float) -> None:
    assert math.isnan(share(table(), point(size, 10.0)))


def test_of_another_operation_nothing_is_expected() -> None:
    assert math.isnan(share(table("BCAST"), point(MIB, 10.0)))


def test_bus_bandwidths_are_compared_so_another_number_of_ranks_is_no_matter() -> None:
    of_four = point(MIB, 10.0, ranks=4)  # 1.5 times that on the bus, which for two ranks is once
    assert share(table(), of_four) == pytest.approx(5.0 / 15.0)


def test_sizes_of_an_allgather_are_those_of_one_rank_in_mpi_and_of_all_in_nccl_tests() -> None:
    bandwidth = table("ALLGATHER", size=MIB)  # of two ranks: 2 MiB altogether, half of that on the bus
    assert share(bandwidth, point(MIB, 10.0, "ALLGATHER")) == pytest.approx(5.0 / 10.0)
    assert share(bandwidth, Point("ALLGATHER", 2 * MIB, 1.0, None, 10.0)) == pytest.approx(5.0 / 10.0)


def test_benchmarks_of_mpi_state_what_an_all_to_all_sends_to_each_rank() -> None:
    of_each = Point("ALLTOALL", MIB / 2, MIB / 10e3, 2, None)  # 1 MiB in all, half of it on the bus: 5 GB/s
    assert share(table("ALLTOALL"), of_each) == pytest.approx(1.0)


@pytest.mark.parametrize("size", [0.0, math.nan])
def test_of_an_unknown_size_nothing_is_expected(size: float) -> None:
    assert math.isnan(share(table(size=size), point(MIB, 10.0)))


def test_a_message_has_no_number_of_ranks() -> None:
    assert share(table("SEND", ranks=None), point(MIB, 10.0, "SEND")) == pytest.approx(0.5)


def test_a_single_byte_is_a_size_too() -> None:
    assert share(table(size=1.0), point(1.0, 10.0)) == pytest.approx(0.5)
