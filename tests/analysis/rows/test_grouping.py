"""Short ways to figures of groups say what the long ones say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timing_logger.analysis.rows.grouping import counted_quantiles, first_above, quantiles
from timing_logger.analysis.rows.intervals import stretches, union_length

counted = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([np.nan, 0.0, 0.1, 0.3, 1 / 3, 7.0]), st.integers(0, 5))
)


@given(counted, st.sampled_from([0.0, 0.05, 0.5, 0.95, 1.0]))
def test_quantiles_of_counted_values_are_those_of_repeated_ones(
    rows: list[tuple[int, float, int]], which: float
) -> None:
    table = np.array(rows, np.float64).reshape(-1, 3)
    group, values, counts = table[:, 0].astype(np.int64), table[:, 1], table[:, 2].astype(np.int64)
    expected = quantiles(np.repeat(values, counts), np.repeat(group, counts), 4, [which])
    np.testing.assert_array_equal(counted_quantiles(values, counts, group, 4, [which]), expected)


@given(st.lists(st.tuples(st.integers(0, 1), st.booleans(), st.integers(0, 3), st.integers(0, 3))))
def test_what_follows_one_another_has_the_stretches_that_it_has_beside_what_overlaps(
    rows: list[tuple[int, bool, int, int]],
) -> None:
    """An owner's intervals one after the other; those of owner 2 make them be looked at the long way."""
    table = np.array(rows, np.int64).reshape(-1, 4)
    ends = np.cumsum(table[:, 2] + table[:, 3]).astype(np.float64)
    starts, owner, kind = ends - table[:, 3], table[:, 0], table[:, 1]
    short = stretches(owner, starts, ends, kind, 2)
    long = stretches(
        np.append(owner, [2, 2]), np.append(starts, [0.0, 1.0]), np.append(ends, [2.0, 3.0]),
        np.append(kind, [0, 1]), 2,
    )  # fmt: skip
    for of_short, of_long in zip(short.is_open, long.is_open, strict=True):
        np.testing.assert_array_equal(short.length_s(of_short, 2), long.length_s(of_long, 3)[:2])
    whole = union_length(starts, ends)
    assert sum(short.length_s(some, 2).sum() for some in short.is_open) == whole


@pytest.mark.parametrize("times", [1, 1000], ids=["few are asked for", "many are asked for"])
def test_the_first_above_a_bound_is_after_all_that_are_equal_to_it(times: int) -> None:
    begin, values = np.array([0, 3, 3, 5]), np.array([1.0, 2.0, 3.0, 4.0, 4.0])
    asked = [(0, 0.5, 0), (0, 2.0, 2), (0, 9.0, 3), (1, 1.0, 3), (2, 3.9, 3), (2, 4.0, 5), (0, np.nan, 0)]
    group, bound, place = (np.array(column * times) for column in map(list, zip(*asked, strict=True)))
    assert first_above(begin, values, group, bound).tolist() == place.tolist()
