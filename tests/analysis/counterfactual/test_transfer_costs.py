"""What transfers cost, in a table of runs that are made by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from hand_made_cases import case_of, transfers_of

from timing_logger.analysis.counterfactual.transfer_costs import costs_table
from timing_logger.analysis.rows.tables import of_pandas

SIZES = np.array([[1e5], [2e5], [4e5]])


def costs(
    columns: Sequence[tuple[int, ...]], latency_ms: float, ms_per_byte: float, n: Sequence[int] = ()
) -> pd.DataFrame:
    """Return the costs over links of these ranks, with so many transfers of each in a step."""
    sizes = np.repeat(SIZES, len(columns), axis=1)
    counts = np.ones(sizes.shape, np.int64) * np.array(n or [1] * len(columns))
    its = transfers_of(columns, latency_ms + ms_per_byte * sizes, mean_bytes=sizes, n=counts)
    found: pd.DataFrame = costs_table(case_of(np.ones((3, 4)), hosts="aabb", transfers=its), of_pandas())
    return found


def test_latency_is_told_in_microseconds_and_bandwidth_in_gb_per_second() -> None:
    (row,) = costs([(0, 1, 2)], 0.05, 1e-6).itertuples(index=False)
    assert (row.operation, row.ranks, row.hosts, row.count) == ("ALLREDUCE", 3, 2, 3)
    assert (row.least_bytes, row.most_bytes) == (1e5, 4e5)
    assert (row.latency_us, row.gb_per_s) == (pytest.approx(50.0), pytest.approx(1.0))
    assert row.error == pytest.approx(0.0, abs=1e-9)


def test_where_size_makes_no_difference_the_bandwidth_is_infinite() -> None:
    one_each = transfers_of([(0, 1)], np.array([[4.0], [1.0]]), mean_bytes=np.array([[1.0], [2.0]]))
    found = costs_table(case_of(np.ones((2, 2)), transfers=one_each), of_pandas())
    assert found["gb_per_s"].tolist() == [math.inf]


def test_what_was_transferred_most_often_comes_first_and_of_as_many_that_among_fewer_ranks() -> None:
    found = costs([(0, 2, 3), (0, 1), (0, 1, 2, 3)], 0.05, 1e-6, n=[2, 2, 5])
    assert list(zip(found["ranks"], found["count"], strict=True)) == [(4, 15), (2, 6), (3, 6)]
