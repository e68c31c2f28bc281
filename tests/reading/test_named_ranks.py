"""Ranks are named one by one or as ranges, and of many the first."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from timing_logger.reading.named_ranks import capital, listed_ranks, named_ranks


@pytest.mark.parametrize(
    ("ranks", "named"),
    [
        ([3], "rank 3"),
        ([3, 3], "rank 3"),
        ([1, 0], "ranks 0 and 1"),
        ([3, 0, 1], "ranks 0, 1 and 3"),
        (range(3), "ranks 0, 1 and 2"),
        (range(4), "ranks 0 to 3"),
        ([*range(63), 64], "ranks 0 to 62 and 64"),
    ],
)
def test_ranks_are_named_in_words(ranks: Iterable[int], named: str) -> None:
    assert named_ranks(ranks) == named


@pytest.mark.parametrize(
    ("ranks", "listed"),
    [
        ([], ""),
        (range(0, 16, 2), "0, 2, 4, 6, 8, 10, 12, 14"),
        (range(0, 18, 2), "0, 2, 4, 6, 8, 10, 12, 14, 1 more"),
        ([*range(10), *range(20, 40, 2)], "0 to 9, 20, 22, 24, 26, 28, 30, 32, 3 more"),
        ([0, 5, *range(8, 13)], "0, 5, 8 to 12"),
        ([*range(0, 16, 2), *range(20, 30)], "0, 2, 4, 6, 8, 10, 12, 14, 10 more"),
    ],
)
def test_eight_ranks_or_ranges_are_listed_and_the_ranks_beyond_them_are_counted(
    ranks: Iterable[int], listed: str
) -> None:
    assert listed_ranks(ranks) == listed


def test_only_the_first_letter_of_a_sentence_is_capital() -> None:
    assert [capital(text) for text in ("ranks 0 and B", "a", "")] == ["Ranks 0 and B", "A", ""]
