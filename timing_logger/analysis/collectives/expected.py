"""Hold the bandwidth of a run against what a benchmark reached at the same operation and size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.operations import algorithm_bytes, bus_factor
from timing_logger.analysis.rows.table_types import Floats

_BYTES_PER_US = 1e-3  # in GB/s

_STATED_FOR_EACH = frozenset({"ALLTOALL", "ALLTOALLV", "SCATTER"})
"""Operations of which benchmarks of MPI state the bytes for each rank, of those in the send buffer."""


class Point(NamedTuple):
    """A result of a benchmark.

    Attributes:
        operation: the base operation.
        size_bytes: the size as the benchmark states it: of nccl-tests all bytes that the operation handles,
            of others those in the send buffer of a rank, or for each rank in it.
        time_us: how long the operation took.
        n_ranks: the number of ranks; None if the benchmark does not tell.
        busbw_gb_per_s: its bus bandwidth; None if the benchmark does not state it.
    """

    operation: str
    size_bytes: float
    time_us: float
    n_ranks: int | None
    busbw_gb_per_s: float | None


class Benchmark(NamedTuple):
    """What a benchmark measured.

    Attributes:
        name: the benchmark, as it stands in a sentence.
        points: its results.
    """

    name: str
    points: Sequence[Point]


def with_expectation(bandwidth: pd.DataFrame, benchmark: Benchmark) -> pd.DataFrame:
    """Add what a benchmark reached to each row of ``bandwidth``, and the share of it that the run reached.

    Bus bandwidths are compared, which do not depend on the number of ranks (nccl-tests, doc/PERFORMANCE.md):
    that of the transfer, where it is known, else that of the time that a rank spent. Between two sizes that
    were measured, the logarithm of the bandwidth is interpolated linearly in that of the size. Outside of
    them nothing is expected. Where the benchmark does not state its number of ranks, it is taken to be that
    of the group.

    Args:
        bandwidth: as ``bandwidth`` returns.
        benchmark: what was measured.

    Returns:
        The table with two columns more.

    Columns:
        expected_busbw_gb_per_s: what the benchmark reached; NaN if it did not measure that.
        share_of_expected: the bus bandwidth of the run divided by that; NaN where either is not known.
    """
    transfer = bandwidth["transfer_busbw_gb_per_s"].to_numpy(np.float64)
    reached = np.where(np.isnan(transfer), bandwidth["busbw_gb_per_s"].to_numpy(np.float64), transfer)
    named = bandwidth["operation"].astype(str), bandwidth["message_size_bytes"], bandwidth["group_size"]
    expected = np.array([
        _expected(operation, _float(size), _float(n), benchmark.points)
        for operation, size, n in zip(*named, strict=True)
    ])  # fmt: skip
    columns = {"expected_busbw_gb_per_s": expected, "share_of_expected": reached / expected}
    found: pd.DataFrame = bandwidth.assign(**columns)
    return found


def _float(value: object) -> float:
    return np.nan if pd.isna(value) else float(value)  # type: ignore[arg-type,call-overload]


def _expected(operation: str, size_bytes: float, n_ranks: float, points: Sequence[Point]) -> float:
    """Return the bus bandwidth that is expected of an operation of a size, in GB/s; NaN if unknown."""
    alike = [point for point in points if point.operation == operation]
    if not alike or not size_bytes > 0:
        return np.nan
    n = 1.0 if np.isnan(n_ranks) else n_ranks  # of messages
    at = algorithm_bytes(operation, size_bytes, n)
    found = sorted({_handled_and_busbw(point, n) for point in alike})
    sizes, busbw = (np.array(values) for values in zip(*found, strict=True))
    usable = busbw > 0
    return _between(at, sizes[usable], busbw[usable])


def _handled_and_busbw(point: Point, n_ranks: float) -> tuple[float, float]:
    """Return all bytes that the operation handled, and its bus bandwidth in GB/s."""
    n = float(point.n_ranks or n_ranks)
    if point.busbw_gb_per_s is not None:
        exact = point.size_bytes / point.time_us * _BYTES_PER_US * bus_factor(point.operation, n)
        return point.size_bytes, exact if point.n_ranks and exact > 0 else point.busbw_gb_per_s
    size_bytes = point.size_bytes * (n if point.operation in _STATED_FOR_EACH else 1.0)
    handled = algorithm_bytes(point.operation, size_bytes, n)
    return handled, handled / point.time_us * _BYTES_PER_US * bus_factor(point.operation, n)


def _between(at: float, sizes: Floats, busbw: Floats) -> float:
    if not len(sizes) or not sizes[0] <= at <= sizes[-1]:
        return np.nan
    return float(np.exp(np.interp(np.log(at), np.log(sizes), np.log(busbw))))
