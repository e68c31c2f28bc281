"""How long an uncompressed allreduce would take, by those of other sizes that were measured."""

from __future__ import annotations

import math

import numpy as np
import pytest
from rank_tables import collective
from rank_tables import quick_table as table

from timing_logger.analysis.collectives.compression import DenseTimes, dense_times


def measured(sizes: list[float], times_ms: list[float]) -> DenseTimes:
    return DenseTimes(np.full(len(sizes), 4.0), np.array(sizes), np.array(times_ms))


def test_a_size_that_was_measured_takes_as_long_as_it_did() -> None:
    took_ms, far = measured([400.0, 100.0], [3.0, 1.0]).estimates(np.array([100.0, 400.0]))
    assert took_ms == pytest.approx([1.0, 3.0])
    assert far == pytest.approx([1.0, 1.0])


def test_between_two_sizes_the_logarithm_of_the_speed_is_interpolated() -> None:
    took_ms, far = measured([100.0, 400.0], [1.0, 1.0]).estimates(np.array([200.0]))
    assert took_ms == pytest.approx([1.0])  # twice the speed of the one, half that of the other
    assert far == pytest.approx([1.0])


def test_beyond_the_sizes_the_speed_stays_the_same_and_it_is_told_how_far_that_is() -> None:
    took_ms, far = measured([100.0, 400.0], [1.0, 2.0]).estimates(np.array([50.0, 1200.0]))
    assert took_ms == pytest.approx([0.5, 6.0])
    assert far == pytest.approx([2.0, 3.0])


def test_no_size_takes_longer_than_a_larger_one() -> None:
    took_ms, _ = measured([100.0, 200.0, 400.0], [9.0, 1.0, 2.0]).estimates(np.array([100.0]))
    assert took_ms == pytest.approx([1.0])


@pytest.mark.parametrize(
    ("of", "sought", "sizes"),
    [
        ([2.0, 4.0, 4.0], 4.0, [2, 3]),
        ([2.0, 4.0, math.nan], math.nan, [2]),
        ([2.0, math.nan, 4.0], 8.0, [2]),
        ([2.0, 4.0, 4.0], 8.0, []),
        ([math.nan, math.nan], math.nan, [1, 2]),
    ],
)
def test_a_reduction_is_compared_with_those_of_as_many_ranks(
    of: list[float], sought: float, sizes: list[int]
) -> None:
    n = len(of)
    found = DenseTimes(np.array(of), np.arange(1.0, n + 1), np.ones(n)).of_ranks(sought)
    assert found.size.tolist() == sizes


def test_times_are_means_of_the_transfer_where_it_is_known_by_class_of_sizes() -> None:
    rows: list[list] = [[], []]
    for seq, (size, late_ms, ms) in enumerate([(1000, 0, 10), (900, 4, 20), (5000, 0, 40)]):
        instance = collective(
            [100 * seq, 100 * seq + late_ms], 100 * seq + ms, seq=seq, message_size_bytes=size
        )
        for mine, row in zip(rows, instance, strict=True):
            mine += row
    found = dense_times(table(*rows))
    assert found.n_ranks.tolist() == [2, 2]
    assert found.size == pytest.approx([950, 5000])
    assert found.time_ms == pytest.approx([13, 40])


def test_what_is_no_allreduce_or_sends_nothing_is_left_out() -> None:
    barrier = collective([0, 1], 5, operation="BARRIER", seq=0)
    empty = collective([10, 11], 15, seq=1, message_size_bytes=0)
    assert len(dense_times(table(*([*a, *b] for a, b in zip(barrier, empty, strict=True)))).size) == 0
