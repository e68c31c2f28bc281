"""Rows are selected by rank and iteration, and ranges are said as the command line takes them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pandas as pd
import pytest

from timing_logger.reading.named_ranks import SELECTED, as_given, in_ranges, select, successive


@pytest.fixture
def table() -> pd.DataFrame:
    """Two ranks, each with a row outside of any iteration, and with two epochs of iteration 3."""
    iterations = pd.array([None, 2, 3, 3, 4] * 2, dtype="Int64")
    rows: pd.DataFrame = pd.DataFrame({"rank": [0] * 5 + [1] * 5, "iteration": iterations})
    rows.attrs = {"files": [{"rank": 0}, {"rank": 1}], "left_out": []}
    return rows


@pytest.mark.parametrize(
    ("iterations", "chosen"),
    [
        (None, [None, 2, 3, 3, 4]),
        (slice(None, None), [2, 3, 3, 4]),
        (slice(3, None), [3, 3, 4]),
        (slice(None, 3), [2]),
        (slice(3, 4), [3, 3]),
        (slice(0, 0), []),
        (slice(5, None), []),
    ],
)
def test_iterations_are_chosen_from_the_first_to_before_the_last(
    table: pd.DataFrame, iterations: slice | None, chosen: list[Any]
) -> None:
    found = select(table, ranks=[1], iterations=iterations)
    assert [None if pd.isna(one) else one for one in found["iteration"]] == chosen
    assert set(found["rank"]) <= {1}
    assert found.index.tolist() == list(range(len(chosen)))


@pytest.mark.parametrize(("ranks", "left"), [([0], [0]), ([2, 1], [1]), ([], [])])
def test_files_of_other_ranks_are_not_described_and_the_others_state_what_was_asked_for(
    table: pd.DataFrame, ranks: Collection[int], left: list[int]
) -> None:
    found = select(table, ranks=ranks)
    assert list(found.attrs["files"]) == [{"rank": rank, SELECTED: sorted(ranks)} for rank in left]
    assert found.attrs["left_out"] == []
    assert table.attrs["files"] == [{"rank": 0}, {"rank": 1}]


def test_without_a_choice_of_ranks_all_files_are_described_as_they_were(table: pd.DataFrame) -> None:
    assert select(table, iterations=slice(3, 4)).attrs == table.attrs
    table.attrs = {}
    assert select(table, ranks=[0]).attrs == {}


def test_successive_numbers_are_together() -> None:
    assert successive([5, 1, 0, 2, 7, 8]) == [[0, 1, 2], [5], [7, 8]]
    assert in_ranges([5, 1, 0, 2, 7, 8]) == "0-2,5,7-8"
    assert (successive([]), in_ranges([])) == ([], "")


@pytest.mark.parametrize(
    ("iterations", "text"), [(slice(100, None), "100:"), (slice(None, 0), ":0"), (slice(0, 9), "0:9")]
)
def test_a_range_of_iterations_is_said_as_it_was_given(iterations: slice, text: str) -> None:
    assert as_given(iterations) == text
