"""Picking entries of tensors: the largest ones, those above a threshold, and sums by index.

Magnitudes decide, and where they are equal the lowest position: the same input gives the same
picks on every machine. Nothing here communicates or remembers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

_INT32_LENGTHS = 2**31


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """What values of ``dtype`` are added in: float64 for itself, float32 for all others."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def index_dtype(length: int) -> torch.dtype:
    """The dtype of indices into a tensor of ``length`` entries."""
    return torch.int32 if length < _INT32_LENGTHS else torch.int64


def entries_to_keep(density: float, length: int) -> int:
    """``ceil(density * length)``, at least 1 and at most ``length``."""
    return min(length, max(1, math.ceil(density * length)))


def largest(values: Tensor, k: int) -> Tensor:
    """Positions of the ``k`` entries of largest magnitude.

    Args:
        values: 1-D, without NaN.
        k: 0 <= k <= number of entries.

    Returns:
        ``k`` positions, int64, ascending. Of equal magnitudes the lowest positions are taken.
    """
    if k == 0:
        return torch.empty(0, dtype=torch.int64, device=values.device)
    if k == values.numel():
        return torch.arange(k, device=values.device)
    magnitudes = values.abs()
    smallest_kept = torch.topk(magnitudes, k, sorted=False).values.min()
    kept = magnitudes > smallest_kept
    ties = (magnitudes == smallest_kept).nonzero().squeeze(1)  # topk says nothing of their order
    kept[ties[: k - int(kept.count_nonzero())]] = True
    return kept.nonzero().squeeze(1)


def at_least(values: Tensor, threshold: float) -> Tensor:
    """Positions of the entries of magnitude >= ``threshold``: int64, ascending."""
    return (values.abs() >= threshold).nonzero().squeeze(1)


def contained(indices: Tensor, others: Tensor) -> Tensor:
    """Which of ``indices`` stand in ``others``, as booleans.

    Args:
        others: 1-D, ascending, of the same dtype.
    """
    if others.numel() == 0:
        return torch.zeros_like(indices, dtype=torch.bool)
    places = torch.searchsorted(others, indices).clamp_(max=others.numel() - 1)
    return others[places] == indices


def sum_by_index(parts: Sequence[tuple[Tensor, Tensor]], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The sum of sparse vectors, added in the order of ``parts``.

    Args:
        parts: pairs ``(values, indices)``; no index twice in one part.
        dtype: what to add in, and of the result.

    Returns:
        ``(values, indices)`` over the union of the indices, which ascend.
    """
    union = torch.unique(torch.cat([indices for _, indices in parts]))
    sums = torch.zeros(union.numel(), dtype=dtype, device=union.device)
    for values, indices in parts:
        # One part at a time, where no place is hit twice: deterministic on a device as well.
        sums.index_add_(0, torch.searchsorted(union, indices), values.to(dtype))
    return sums, union


def sum_into_dense(parts: Sequence[tuple[Tensor, Tensor]], length: int, dtype: torch.dtype) -> Tensor:
    """As :func:`sum_by_index`, but as a dense vector of ``length``; ``parts`` must not be empty."""
    total = torch.zeros(length, dtype=dtype, device=parts[0][0].device)
    for values, indices in parts:
        total.index_add_(0, indices, values.to(dtype))
    return total


def is_finite(tensor: Tensor) -> bool:
    """Whether no entry is infinite or NaN; one pass, without a mask in memory."""
    if tensor.numel() == 0:
        return True
    smallest, largest_one = tensor.detach().aminmax()  # NaN comes through
    return bool(torch.isfinite(smallest) & torch.isfinite(largest_one))
