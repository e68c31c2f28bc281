"""Compute figures of many groups of rows at once. A group is a number from 0, stated for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from timing_logger.analysis.rows.arrays import Floats, Ints, Rows, dense_codes

_MANY = 100
"""From so many questions for each group on, groups are looked at one by one."""


def any_row_of(group: Ints) -> Ints:
    """Return for each group the position of one of its rows."""
    rows = np.zeros(group.max(initial=-1) + 1, np.int64)
    rows[group] = np.arange(len(group))
    return rows


def rows_of_each(group: Ints) -> Iterator[Rows]:
    """Yield an index that selects the rows of each group, in their order; a slice if there is one group."""
    n_rows = np.bincount(group)
    if len(n_rows) == 1:
        yield slice(None)
    elif len(n_rows):
        yield from np.split(_order_of_groups(group), np.cumsum(n_rows)[:-1])


def order_by(group: Ints, values: Floats) -> Ints:
    """Return the stable order of rows by group, then value.

    It equals that of ``np.lexsort``, but takes a fraction of its time for rows that are nearly in order of
    time, and for few groups, as small integers are sorted by their digits.
    """
    by_value = np.argsort(values, kind="stable")
    return by_value[_order_of_groups(group[by_value])]


def _order_of_groups(group: Ints) -> Ints:
    small = group.astype(np.min_scalar_type(group.max(initial=0)))
    return np.argsort(small, kind="stable")


def n_earlier_alike(key: Ints, when: Floats) -> Ints:
    """Count for each entry the entries with the same key that came before it in time."""
    order = order_by(key, when)
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    found = np.empty(len(key), np.int64)
    found[order] = np.arange(len(key)) - np.repeat(first, np.diff(first, append=len(key)))
    return found


def first_above(begin: Ints, values: Floats, group: Ints, bound: Floats) -> Ints:
    """Return the first place in each group at which ``values`` are above a bound; where it ends without one.

    Args:
        begin: where each group begins in ``values``, and at last the number of all values.
        values: ascending in each group.
        group, bound: as often as wanted.
    """
    if len(group) > _MANY * len(begin):
        return _first_above_in_each(begin, values, group, bound)
    low, high, values = begin[group], begin[group + 1], np.append(values, np.inf)
    while (open_ones := low < high).any():
        middle = (low + high) // 2
        below = open_ones & (values[middle] <= bound)
        low, high = np.where(below, middle + 1, low), np.where(open_ones & ~below, middle, high)
    return low


def _first_above_in_each(begin: Ints, values: Floats, group: Ints, bound: Floats) -> Ints:
    """Return ``first_above``, faster where groups are asked for many times each."""
    found = begin[group]
    known = np.flatnonzero(~np.isnan(bound))
    present = np.flatnonzero(np.bincount(group[known], minlength=1))
    for number, its in zip(present.tolist(), rows_of_each(dense_codes(group[known])), strict=True):
        within, rows = values[begin[number] : begin[number + 1]], known[its]
        found[rows] += np.searchsorted(within, bound[rows], side="right")
    return found


def sums(values: Floats | Ints, group: Ints, n_groups: int) -> Floats:
    """Sum the known values of each group; 0 for a group without any."""
    return np.bincount(group, np.where(np.isnan(values), 0.0, values), minlength=n_groups).astype(np.float64)


def ordered_sums(values: Floats, group: Ints, n_groups: int) -> Floats:
    """Sum the known values of each group from the least to the greatest; 0 for a group without any.

    The sums are equal to the last bit in any order of rows.
    """
    order = order_by(group, values)
    return sums(values[order], group[order], n_groups)


def counts_known(values: Floats, group: Ints, n_groups: int) -> Ints:
    """Count the known values (not NaN) of each group."""
    return np.bincount(group[~np.isnan(values)], minlength=n_groups)


def least_of_each(values: Floats | Ints, group: Ints, n_groups: int) -> Floats:
    """Return the least known value of each group; NaN for a group without any."""
    found = np.full(n_groups, np.nan)
    np.fmin.at(found, group, values)
    return found


def greatest_of_each(values: Floats | Ints, group: Ints, n_groups: int) -> Floats:
    """Return the greatest known value of each group; NaN for a group without any."""
    found = np.full(n_groups, np.nan)
    np.fmax.at(found, group, values)
    return found


def quantiles(values: Floats, group: Ints, n_groups: int, which: Sequence[float]) -> list[Floats]:
    """Compute quantiles of the known values of each group, linearly interpolated.

    Args:
        values: one entry per row; NaN where unknown.
        group: the group of each row.
        n_groups: the number of groups.
        which: the quantiles, from 0 to 1.

    Returns:
        For each of ``which`` that quantile of every group; NaN for a group without known values.
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
    """Compute :func:`quantiles` of values each of which occurs ``counts`` times, without repeating them."""
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
    """Interpolate a quantile of each group; ``ordered`` returns the values at positions, group by group."""
    found = np.full(len(begin), np.nan)
    has_some = n_values > 0
    place = quantile * (n_values[has_some] - 1)
    below = np.floor(place).astype(np.int64)
    above = np.ceil(place).astype(np.int64)
    low, high = ordered(begin[has_some] + below), ordered(begin[has_some] + above)
    found[has_some] = low + (place - below) * (high - low)
    return found


def known_sums(values: Floats, group: Ints, n_groups: int) -> Floats:
    """Sum the known values of each group; NaN for a group without any."""
    return np.where(counts_known(values, group, n_groups) > 0, sums(values, group, n_groups), np.nan)


def size_classes(sizes: Floats) -> Floats:
    """Return for each size in bytes the least power of two that is no less; 0 for 0, NaN for NaN."""
    powers = 2.0 ** np.ceil(np.log2(np.maximum(sizes, 1)))
    return np.where(sizes == 0, 0, powers)
