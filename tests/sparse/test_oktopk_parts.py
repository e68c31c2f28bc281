"""The pure parts of Ok-Topk: regions, shares and thresholds."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from allreduce_instrumentation.sparse.oktopk import (
    count_per_region,
    cut_to,
    equal_regions,
    even_shares,
    fits,
    kth_largest,
    regions_from_samples,
    sample,
    take_first,
)

counts_per_rank = st.lists(st.integers(0, 50), min_size=1, max_size=9)

# -- regions --------------------------------------------------------------------------------------


@st.composite
def picks_of_ranks(draw: st.DrawFn) -> tuple[int, list[torch.Tensor]]:
    """A length, and ascending picks of each rank, spread in ways that differ from rank to rank."""
    length = draw(st.integers(1, 5000))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    picks = []
    for _ in range(draw(st.integers(1, 9))):
        start = draw(st.integers(0, length - 1))
        stop = draw(st.integers(start + 1, length))
        count = draw(st.integers(0, stop - start))
        picks.append(start + torch.randperm(stop - start, generator=generator)[:count].sort().values)
    return length, picks


@given(picks_of_ranks(), st.integers(1, 80))
def test_regions_hold_about_as_many_picks_each(drawn: tuple[int, list[torch.Tensor]], samples: int) -> None:
    length, picks = drawn
    ranks, total = len(picks), sum(map(len, picks))
    regions = regions_from_samples(torch.stack([sample(mine, samples) for mine in picks]), length)
    assert len(regions) == ranks + 1
    assert (regions[0], regions[-1], sorted(regions)) == (0, length, regions)
    loads = torch.tensor([count_per_region(mine, regions) for mine in picks]).sum(0)
    assert int(loads.sum()) == total
    assert int(loads.max()) <= total / ranks + 3 * total / samples + 4 * ranks


@given(st.integers(0, 1000), st.integers(1, 9))
def test_equal_regions_differ_by_one_at_most(length: int, ranks: int) -> None:
    lengths = torch.tensor(equal_regions(length, ranks)).diff()
    assert int(lengths.sum()) == length
    assert int(lengths.max()) - int(lengths.min()) <= 1


def test_without_any_pick_regions_are_equal() -> None:
    empty = torch.empty(0, dtype=torch.int32)
    assert regions_from_samples(torch.stack([sample(empty, 5)] * 3), 10) == [0, 3, 6, 10]


def test_an_index_at_a_boundary_belongs_to_the_region_that_it_begins() -> None:
    assert count_per_region(torch.tensor([0, 4, 5, 9], dtype=torch.int32), [0, 5, 5, 10]) == [2, 0, 2]


# -- shares ---------------------------------------------------------------------------------------


@given(st.integers(0, 300), counts_per_rank)
def test_a_cut_takes_in_proportion_and_exactly_so_many(total: int, counts: list[int]) -> None:
    taken = cut_to(total, counts)
    assert sum(taken) == min(total, sum(counts))
    for part, count in zip(taken, counts, strict=True):
        assert 0 <= part <= count
        assert abs(part - count * min(1, total / max(1, sum(counts)))) < 1


@given(st.integers(0, 300), counts_per_rank)
def test_the_first_are_taken_before_the_next(total: int, counts: list[int]) -> None:
    taken = take_first(total, counts)
    assert sum(taken) == min(total, sum(counts))
    for place, part in enumerate(taken[1:], 1):
        assert part == 0 or taken[:place] == counts[:place]


@given(counts_per_rank)
def test_even_shares_keep_the_order_and_leave_everybody_as_many(counts: list[int]) -> None:
    moves = even_shares(counts)
    assert [sum(row) for row in moves] == counts
    held = [sum(column) for column in zip(*moves, strict=True)]
    assert max(held) - min(held) <= 1
    targets = [to for row in moves for to, moved in enumerate(row) for _ in range(moved)]
    assert targets == sorted(targets)


# -- thresholds -----------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.floats(0, width=32), max_size=20), min_size=1, max_size=4).filter(any),
    st.data(),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_the_kth_largest_of_all_ranks_is_exact(
    values: list[list[float]], data: st.DataObject, dtype: torch.dtype
) -> None:
    """One process plays all ranks: digits of the concatenation are those of the ranks together."""
    magnitudes = torch.tensor([value for rank in values for value in rank], dtype=dtype)
    k = data.draw(st.integers(1, len(magnitudes)))
    threshold, ties = kth_largest(magnitudes, k, lambda histogram: histogram)
    assert threshold == magnitudes.sort(descending=True).values[k - 1]
    assert ties == k - int((magnitudes > threshold).sum())


def test_a_threshold_serves_within_a_quarter_of_what_is_wanted() -> None:
    assert [passed for passed in range(20) if fits(passed, 8)] == [6, 7, 8, 9, 10]
