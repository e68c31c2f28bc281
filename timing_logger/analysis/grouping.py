"""Figures of many groups of rows at once. Groups are numbers from 0, one for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from timing_logger.analysis.tables import Floats, Ints


def any_row_of(group: Ints) -> Ints:
    """For each group the position of one of its rows."""
    rows = np.zeros(group.max(initial=-1) + 1, np.int64)
    rows[group] = np.arange(len(group))
    return rows


def rows_of_each(group: Ints) -> Iterator[Any]:
    """What selects the rows of each group, in their order; all of them without a copy, if there is one."""
    n_rows = np.bincount(group)
    if len(n_rows) == 1:
        yield slice(None)
    elif len(n_rows):
        yield from np.split(_order_of_groups(group), np.cumsum(n_rows)[:-1])


def order_by(group: Ints, values: Floats) -> Ints:
    """The stable order by group, then value.

    What ``np.lexsort`` gives, but several times as fast for rows that are nearly in order of time, and
    for few groups, whose numbers are sorted by their digits.
    """
    by_value = np.argsort(values, kind="stable")
    return by_value[_order_of_groups(group[by_value])]


def _order_of_groups(group: Ints) -> Ints:
    small = group.astype(np.min_scalar_type(group.max(initial=0)))
    return np.argsort(small, kind="stable")


def sums(values: Floats, group: Ints, n_groups: int) -> Floats:
    """Sum of each group's known values; 0 where there are none."""
    return np.bincount(group, np.where(np.isnan(values), 0.0, values), minlength=n_groups).astype(np.float64)


def ordered_sums(values: Floats, group: Ints, n_groups: int) -> Floats:
    """The same, added up from the least value to the greatest: equal to the last bit in any order of rows."""
    order = order_by(group, values)
    return sums(values[order], group[order], n_groups)


def counts_known(values: Floats, group: Ints, n_groups: int) -> Ints:
    return np.bincount(group[~np.isnan(values)], minlength=n_groups)


def quantiles(values: Floats, group: Ints, n_groups: int, which: Sequence[float]) -> list[Floats]:
    """For each of ``which`` (0 to 1) that quantile of each group's known values, linearly interpolated.

    NaN where a group has none.
    """
    known = ~np.isnan(values)
    values, group = values[known], group[known]
    values = values[_order_of_groups(group)]
    n_values = np.bincount(group, minlength=n_groups)
    begin = np.cumsum(n_values) - n_values
    for of_one in np.split(values, begin[1:]):  # numbers alone are sorted much faster than pairs
        of_one.sort()
    return [_interpolated(values.__getitem__, begin, n_values, quantile) for quantile in which]


def counted_quantiles(
    values: Floats, counts: Ints, group: Ints, n_groups: int, which: Sequence[float]
) -> list[Floats]:
    """``quantiles`` of values each of which is there ``counts`` times, without repeating them."""
    known = ~np.isnan(values)
    values, counts, group = values[known], counts[known], group[known]
    order = order_by(group, values)
    values, end = values[order], np.cumsum(counts[order])
    n_values = np.bincount(group, counts, minlength=n_groups).astype(np.int64)
    begin = np.cumsum(n_values) - n_values
    return [
        _interpolated(lambda at: values[np.searchsorted(end, at, side="right")], begin, n_values, quantile)
        for quantile in which
    ]


def _interpolated(ordered: Callable[[Ints], Floats], begin: Ints, n_values: Ints, quantile: float) -> Floats:
    """``ordered`` tells which value stands where, of all groups in their order."""
    found = np.full(len(begin), np.nan)
    has_some = n_values > 0
    place = quantile * (n_values[has_some] - 1)
    below = np.floor(place).astype(np.int64)
    above = np.ceil(place).astype(np.int64)
    low, high = ordered(begin[has_some] + below), ordered(begin[has_some] + above)
    found[has_some] = low + (place - below) * (high - low)
    return found


def known_sums(values: Floats, group: Ints, n_groups: int) -> Floats:
    """Of the values that are known; NaN for a group without one."""
    return np.where(counts_known(values, group, n_groups) > 0, sums(values, group, n_groups), np.nan)
