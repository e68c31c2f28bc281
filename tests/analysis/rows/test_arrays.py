"""Columns as arrays: codes in the order of their values, and integers in as few bytes as hold them."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import pytest
from simulated_runs import data_parallel, factors

from timing_logger.analysis import summarize
from timing_logger.analysis.rows.arrays import Array, coded_text, dense_codes, in_few_bytes, numbers

MOST = 2**31 - 1


@pytest.mark.parametrize("values", [[0, MOST], [-MOST, 0], []], ids=["most", "least", "none"])
def test_integers_that_fit_into_32_bits_take_32(values: list[int]) -> None:
    found = in_few_bytes(np.array(values, np.int64))
    assert (found.dtype, found.tolist()) == (np.int32, values)


@pytest.mark.parametrize("value", [MOST + 1, -MOST - 2])
def test_integers_of_which_one_does_not_fit_stay_as_they_are(value: int) -> None:
    found = in_few_bytes(np.array([0, value]))
    assert (found.dtype, found.tolist()) == (np.int64, [0, value])


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        (np.array([7, 5, 7, 6]), [2, 0, 2, 1]),
        (np.array([5, 5, 5]), [0, 0, 0]),
        (np.array([10**12, -(10**12), 0]), [2, 0, 1]),
        (np.array([2**63 - 1, -(2**63)]), [1, 0]),
        (np.array([2.0, np.nan, 1.0, 2.0]), [2, 0, 1, 2]),
        (np.array([0.5, np.nan, 0.25]), [2, 0, 1]),
        (np.array([1e300, np.nan, -np.inf]), [2, 0, 1]),
        (np.array([np.nan, np.nan]), [0, 0]),
        (np.array([True, False]), [1, 0]),
        (np.array([]), []),
    ],
    ids=str,
)
def test_values_are_numbered_in_their_order_and_nan_comes_first(values: Array, codes: list[int]) -> None:
    assert dense_codes(values).tolist() == codes


def test_combinations_are_numbered_in_lexicographic_order() -> None:
    codes = dense_codes(np.array([1, 0, 1, 0, 1]), np.array([np.nan, 2.5, 1.0, 0.5, np.nan]))
    assert codes.tolist() == [2, 1, 3, 0, 2]


def test_a_table_that_a_program_holds_and_changes_is_read_anew_by_each_analysis() -> None:
    rows = data_parallel(factors(5, 2))
    held = nw.from_native(rows, eager_only=True)
    before_ms = summarize(held)["total_ms"].sum()
    rows["elapsed_ms"] *= 10
    assert summarize(held)["total_ms"].sum() == pytest.approx(10 * before_ms)


def test_a_number_that_stands_as_text_is_that_number_and_a_blank_is_unknown() -> None:
    frame = nw.from_dict({"work": ["1.5", " ", ""]}, backend="pandas")
    np.testing.assert_array_equal(numbers(frame, "work"), [1.5, np.nan, np.nan])


@pytest.mark.parametrize(
    ("categories", "codes", "texts"),
    [
        (["a", "b", "c"], [0, 1, 2, 1], ["a", "b", "c"]), (["c", "b", "a"], [2, 1, 0, 1], ["a", "b", "c"]),
        (["unused", "b", "c", "a"], [2, 1, 0, 1], ["a", "b", "c"]), (["a", "b"], [0, 1, 1, 1], ["a", "b"]),
    ],
)  # fmt: skip
def test_texts_of_categories_are_those_that_occur_in_ascending_order(
    categories: list[str], codes: list[int], texts: list[str]
) -> None:
    column = pd.Categorical([texts[code] for code in codes], categories=categories)
    frame = nw.from_native(pd.DataFrame({"name": column}), eager_only=True)
    found, distinct = coded_text(frame, "name")
    assert (found.tolist(), found.dtype, distinct) == (codes, np.int64, texts)


@pytest.mark.parametrize(
    "values",
    [
        [1.5, np.nan], pd.array([1, None], "Int64"), pd.array([1.5, None], "Float64"), ["1.5", ""],
        np.array([3, 4], np.int32),
    ],
)  # fmt: skip
def test_numbers_of_any_type_of_column_are_floats_with_nan_where_unknown(values: Any) -> None:
    frame = nw.from_native(pd.DataFrame({"of": values}), eager_only=True)
    expected = [np.nan if pd.isna(one) or one == "" else float(one) for one in values]
    assert numbers(frame, "of").tolist() == pytest.approx(expected, nan_ok=True)
    assert numbers(frame, "of").dtype == np.float64
