"""How the work of Ok-Topk is split, on small numbers."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from allreduce_instrumentation.sparse.oktopk import (  # noqa: E402
    count_per_region,
    cut_to,
    equal_regions,
    even_shares,
    regions_from_samples,
    sample,
    take_first,
)


@pytest.mark.parametrize(
    ("length", "ranks", "regions"), [(10, 1, [0, 10]), (10, 3, [0, 3, 6, 10]), (2, 3, [0, 0, 1, 2])]
)
def test_equal_regions_begin_at_0_and_end_at_the_length(length: int, ranks: int, regions: list[int]) -> None:
    assert equal_regions(length, ranks) == regions


@pytest.mark.parametrize(
    ("picks", "samples", "sampled"),
    [
        ([], 2, [0, 0, 0]),
        ([7], 2, [1, 7, 7]),
        ([1, 2, 3, 4], 2, [4, 2, 4]),
        ([1, 2, 3, 4], 4, [4, 1, 2, 3, 4]),
        (list(range(10, 20)), 3, [10, 11, 15, 18]),
    ],
)
def test_samples_stand_in_the_middles_of_equal_parts_after_the_number_of_picks(
    picks: list[int], samples: int, sampled: list[int]
) -> None:
    taken = sample(torch.tensor(picks, dtype=torch.int32), samples)
    assert (taken.tolist(), taken.dtype) == (sampled, torch.int32)


def test_regions_end_where_the_samples_have_reached_their_share() -> None:
    alike = torch.tensor([[2, 1, 3], [2, 5, 7]])
    assert regions_from_samples(alike, 10) == [0, 5, 10]


def test_samples_of_a_rank_with_more_picks_weigh_more() -> None:
    assert regions_from_samples(torch.tensor([[6, 1, 3], [2, 5, 7]]), 10) == [0, 3, 10]


def test_a_rank_without_picks_has_no_weight() -> None:
    assert regions_from_samples(torch.tensor([[0, 0, 0], [4, 5, 7]]), 10) == [0, 7, 10]


def test_without_picks_regions_are_equal() -> None:
    assert regions_from_samples(torch.zeros(2, 3, dtype=torch.int64), 10) == [0, 5, 10]


def test_indices_are_counted_in_the_region_that_they_begin() -> None:
    assert count_per_region(torch.tensor([0, 2, 3, 9]), [0, 3, 3, 10]) == [2, 0, 2]


@pytest.mark.parametrize(
    ("total", "cut"), [(7, [1, 2, 3]), (6, [1, 2, 3]), (5, [0, 2, 3]), (3, [0, 1, 2]), (0, [0, 0, 0])]
)
def test_counts_are_cut_only_if_they_exceed_the_total(total: int, cut: list[int]) -> None:
    assert cut_to(total, [1, 2, 3]) == cut


@pytest.mark.parametrize(
    ("total", "taken"), [(0, [0, 0, 0]), (1, [1, 0, 0]), (2, [1, 1, 0]), (6, [1, 2, 3]), (9, [1, 2, 3])]
)
def test_the_first_ones_are_taken_first(total: int, taken: list[int]) -> None:
    assert take_first(total, [1, 2, 3]) == taken


@pytest.mark.parametrize(
    ("counts", "shares"),
    [
        ([4], [[4]]),
        ([4, 0], [[2, 2], [0, 0]]),
        ([0, 4], [[0, 0], [2, 2]]),
        ([1, 2, 3], [[1, 0, 0], [1, 1, 0], [0, 1, 2]]),
        ([0, 0], [[0, 0], [0, 0]]),
    ],
)
def test_each_rank_hands_over_what_others_lack(counts: list[int], shares: list[list[int]]) -> None:
    assert even_shares(counts) == shares
