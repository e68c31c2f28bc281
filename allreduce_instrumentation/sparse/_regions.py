"""Splits the work of Ok-Topk: indices into one region per rank, and entries to be moved into shares.

These are pure functions on counts and sorted indices; every rank gets the same answer from the same
arguments. ``regions`` are ``ranks + 1`` ascending indices from 0 to the tensor's length: rank r sums the
entries from ``regions[r]`` up to, not including, ``regions[r + 1]``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise

import torch
from torch import Tensor


def equal_regions(length: int, ranks: int) -> list[int]:
    """Return regions whose lengths differ by one at most."""
    return [rank * length // ranks for rank in range(ranks + 1)]


def sample(indices: Tensor, samples: int) -> Tensor:
    """Return the number of ``indices``, followed by evenly spaced samples of them.

    Args:
        indices: this rank's picks, ascending; 1-D.
        samples: how many samples to take. If there are no indices, all samples are zero, and the number
            gives them no weight.

    Returns:
        ``1 + samples`` entries in the dtype of ``indices``.
    """
    count = indices.numel()
    sampled = torch.zeros(1 + samples, dtype=indices.dtype, device=indices.device)
    if count:
        middles = (2 * torch.arange(samples, device=indices.device) + 1) * count // (2 * samples)
        sampled[0], sampled[1:] = count, indices[middles]
    return sampled


def regions_from_samples(sampled: Tensor, length: int) -> list[int]:
    """Return regions with about equally many picks, from the samples of all ranks.

    Each sample stands for (picks / samples) picks of its rank. So with N picks in all on P ranks, and s
    samples per rank, a region holds at most N/P + 3N/s + 4P picks, however they are distributed over
    indices and ranks. (The mean of the ranks' own quantiles, as in the paper's code, gives balanced regions
    only if the ranks are alike.)

    Args:
        sampled: the result of :func:`sample` of every rank, one row per rank.
        length: the tensor's number of entries.
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
    """Return how many of ``indices`` (ascending) are in each region."""
    edges = torch.tensor(regions, dtype=indices.dtype, device=indices.device)
    return torch.searchsorted(indices, edges).diff().tolist()


def cut_to(total: int, counts: list[int]) -> list[int]:
    """Return ``counts`` reduced in proportion to a sum of ``total``; unchanged if they do not exceed it."""
    if sum(counts) <= total:
        return counts
    reached = [part * total // sum(counts) for part in accumulate(counts, initial=0)]
    return [after - before for before, after in pairwise(reached)]


def take_first(total: int, counts: list[int]) -> list[int]:
    """Return how many to take of each of ``counts``, from the first on, until ``total`` are taken."""
    reached = [min(part, total) for part in accumulate(counts, initial=0)]
    return [after - before for before, after in pairwise(reached)]


def even_shares(counts: list[int]) -> list[list[int]]:
    """Return how many entries each rank hands to each other rank so that all hold equally many.

    The entries form one sequence, whose order is kept: rank i holds ``counts[i]`` of them, after those of
    rank i - 1.

    Returns:
        One row per sender, with one count per receiver; the diagonal is what stays.
    """
    ranks = len(counts)
    have = list(pairwise(accumulate(counts, initial=0)))
    want = list(pairwise(equal_regions(sum(counts), ranks)))
    return [[max(0, min(end, stop) - max(begin, start)) for start, stop in want] for begin, end in have]


# -- thresholds of Ok-Topk: they are determined exactly from time to time, and reused in between ---------


_DIGIT_BITS = 4
_DIGITS = 1 << _DIGIT_BITS
_AS_INTEGER = {torch.float32: torch.int32, torch.float64: torch.int64}


def fits(passed: int, wanted: int) -> bool:
    """Tell whether a threshold that ``passed`` entries exceed is still usable if ``wanted`` are wanted.

    It is usable if the two differ by a quarter of ``wanted`` at most. Surplus entries are cut off, and the
    residuals make up for missing ones.
    """
    return 3 * wanted <= 4 * passed <= 5 * wanted


def kth_largest(magnitudes: Tensor, k: int, add_over_ranks: Callable[[Tensor], Tensor]) -> tuple[float, int]:
    """Return the ``k``-th largest magnitude of all ranks, and how many equal to it are among the k largest.

    The bits of nonnegative floats have the order of the floats. So the value is found exactly, four bits at
    a time: each step adds up 16 counters over the ranks, however many entries there are. Collective.

    Args:
        magnitudes: this rank's magnitudes; 1-D, float32 or float64, none negative or NaN; on the host.
        k: from 1 to the number of magnitudes of all ranks together.
        add_over_ranks: sums an int64 tensor over the ranks; called equally often on every rank.
    """
    integer = _AS_INTEGER[magnitudes.dtype]
    keys = magnitudes.view(integer).to(torch.int64)
    found, missing = 0, k
    for shift in range(torch.iinfo(integer).bits - _DIGIT_BITS, -1, -_DIGIT_BITS):
        digits = (keys >> shift) & (_DIGITS - 1)
        histogram = add_over_ranks(torch.bincount(digits, minlength=_DIGITS)).tolist()
        digit = _DIGITS - 1
        while histogram[digit] < missing:
            missing -= histogram[digit]
            digit -= 1
        found |= digit << shift
        keys = keys[digits == digit]
    return torch.tensor(found, dtype=integer).view(magnitudes.dtype).item(), missing
