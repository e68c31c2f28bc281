"""Who sums what in Ok-Topk: the indices cut into one region per rank, and shares of what is to be moved.

Pure functions on counts and sorted indices; every rank calls them with the same arguments and gets the
same answer. ``regions`` are ``ranks + 1`` ascending indices from 0 to the length: rank r sums
``regions[r]`` up to, not including, ``regions[r + 1]``.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

import torch
from torch import Tensor


def equal_regions(length: int, ranks: int) -> list[int]:
    """Regions whose lengths differ by one at most."""
    return [rank * length // ranks for rank in range(ranks + 1)]


def sample(indices: Tensor, samples: int) -> Tensor:
    """How many ``indices`` (ascending) there are, then so many ``samples`` of them, evenly spaced.

    Without any index the samples are zeros, and weigh nothing.
    """
    count = indices.numel()
    sampled = torch.zeros(1 + samples, dtype=indices.dtype, device=indices.device)
    if count:
        middles = (2 * torch.arange(samples, device=indices.device) + 1) * count // (2 * samples)
        sampled[0], sampled[1:] = count, indices[middles]
    return sampled


def regions_from_samples(sampled: Tensor, length: int) -> list[int]:
    """Regions that hold about as many picks each, from every rank's :func:`sample` (one row each).

    A sample stands for as many picks as its rank has per sample. So with N picks in all on P ranks, and
    s samples of each, a region holds at most N/P + 3N/s + 4P of them, wherever they lie on which rank.
    (A mean of the ranks' own quantiles, as in the paper's code, balances only ranks that are alike.)
    """
    ranks = len(sampled)
    counts, indices = sampled[:, :1], sampled[:, 1:]
    if not int(counts.sum()):
        return equal_regions(length, ranks)
    ordered, order = indices.flatten().sort(stable=True)
    reached = counts.expand_as(indices).flatten()[order].cumsum(0)  # weights, in units of 1/s of a pick
    goals = torch.arange(1, ranks, device=sampled.device) * reached[-1]  # in units of 1/(s * ranks)
    firsts = torch.searchsorted(reached * ranks, goals, right=True)
    return [0, *ordered[firsts].tolist(), length]


def count_per_region(indices: Tensor, regions: list[int]) -> list[int]:
    """How many of ``indices`` (ascending) lie in each region."""
    edges = torch.tensor(regions, dtype=indices.dtype, device=indices.device)
    return torch.searchsorted(indices, edges).diff().tolist()


def cut_to(total: int, counts: list[int]) -> list[int]:
    """``counts``, in proportion, reduced to ``total`` altogether; as they are if they do not exceed it."""
    if sum(counts) <= total:
        return counts
    reached = [part * total // sum(counts) for part in accumulate(counts, initial=0)]
    return [after - before for before, after in pairwise(reached)]


def take_first(total: int, counts: list[int]) -> list[int]:
    """``counts``, from the first on, until ``total`` are taken."""
    reached = [min(part, total) for part in accumulate(counts, initial=0)]
    return [after - before for before, after in pairwise(reached)]


def even_shares(counts: list[int]) -> list[list[int]]:
    """How many entries each rank hands to each other for all to hold as many, in the same order.

    Rank i holds ``counts[i]`` entries of one ordered sequence, after those of rank i - 1. Returns one row
    per sender; the diagonal is what stays.
    """
    ranks = len(counts)
    have = list(pairwise(accumulate(counts, initial=0)))
    want = list(pairwise(equal_regions(sum(counts), ranks)))
    return [[max(0, min(end, stop) - max(begin, start)) for start, stop in want] for begin, end in have]
