"""Picks entries of tensors by magnitude, and adds sparse vectors by index.

Of equal magnitudes the lowest positions are picked, so that the same input gives the same picks on every
machine. Nothing here communicates or keeps state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

_INT32_LENGTHS = 2**31


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which values of ``dtype`` are added: float64 for float64, else float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def index_dtype(length: int) -> torch.dtype:
    """Return the dtype of indices into ``length`` entries: int32 where that is enough, else int64."""
    return torch.int32 if length < _INT32_LENGTHS else torch.int64


def entries_to_keep(density: float, length: int) -> int:
    """Return how many of ``length`` entries are picked: ``ceil(density * length)``, from 1 to ``length``."""
    return min(length, max(1, math.ceil(density * length)))


def largest(values: Tensor, k: int) -> Tensor:
    """Return the positions of the ``k`` entries of largest magnitude.

    Args:
        values: 1-D, without NaN.
        k: 0 <= k <= number of entries.

    Returns:
        ``k`` positions, int64, ascending. Of equal magnitudes the lowest positions are picked.
    """
    if k == 0:
        return torch.empty(0, dtype=torch.int64, device=values.device)
    if k == values.numel():
        return torch.arange(k, device=values.device)
    magnitudes = values.abs()
    smallest_kept = torch.topk(magnitudes, k, sorted=False).values.min()
    kept = magnitudes > smallest_kept
    ties = (magnitudes == smallest_kept).nonzero().squeeze(1)  # topk does not say which of them it picks
    kept[ties[: k - int(kept.count_nonzero())]] = True
    return kept.nonzero().squeeze(1)


def at_least(values: Tensor, threshold: float) -> Tensor:
    """Return the positions of the entries of magnitude >= ``threshold``: int64, ascending."""
    return (values.abs() >= threshold).nonzero().squeeze(1)


def contained(indices: Tensor, others: Tensor) -> Tensor:
    """Tell for each of ``indices`` whether it is among ``others``.

    Args:
        indices: 1-D.
        others: 1-D, ascending, of the same dtype.

    Returns:
        One boolean per entry of ``indices``.
    """
    if others.numel() == 0:
        return torch.zeros_like(indices, dtype=torch.bool)
    places = torch.searchsorted(others, indices).clamp_(max=others.numel() - 1)
    return others[places] == indices


def sum_by_index(parts: Sequence[tuple[Tensor, Tensor]], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the sum of sparse vectors, added in the order of ``parts``.

    Args:
        parts: pairs ``(values, indices)``; no index twice in one part.
        dtype: the dtype to add in, and of the result.

    Returns:
        ``(values, indices)`` over the union of the indices, in ascending order.
    """
    union = torch.unique(torch.cat([indices for _, indices in parts]))
    sums = torch.zeros(union.numel(), dtype=dtype, device=union.device)
    for values, indices in parts:
        # One part at a time, in which no index occurs twice: the order of additions is fixed on a device too.
        sums.index_add_(0, torch.searchsorted(union, indices), values.to(dtype))
    return sums, union


def sum_into_dense(parts: Sequence[tuple[Tensor, Tensor]], length: int, dtype: torch.dtype) -> Tensor:
    """Return the sum of sparse vectors, added in the order of ``parts``, as a dense vector.

    Args:
        parts: pairs ``(values, indices)``, at least one; no index twice in one part.
        length: number of entries of the result.
        dtype: the dtype to add in, and of the result.
    """
    total = torch.zeros(length, dtype=dtype, device=parts[0][0].device)
    for values, indices in parts:
        total.index_add_(0, indices, values.to(dtype))
    return total


def is_finite(tensor: Tensor) -> bool:
    """Tell whether no entry of ``tensor`` is infinite or NaN."""
    if tensor.numel() == 0:
        return True
    # One pass without a mask in memory; aminmax() returns NaN if any entry is NaN.
    smallest, largest_one = tensor.detach().aminmax()
    return bool(torch.isfinite(smallest) & torch.isfinite(largest_one))
