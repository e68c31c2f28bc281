"""Sparse all-reduces of all ranks in one process, entry by entry: what the real ones are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

Picks = dict[int, Any]
"""Values by index; NumPy scalars, so that additions round as those of tensors do."""


class ReferenceRank:
    """One rank's residual, in the precision in which its dtype is added up."""

    def __init__(self, dtype: torch.dtype, length: int) -> None:
        self.dtype = dtype
        self.scalar = np.float64 if dtype == torch.float64 else np.float32
        self.residual = [self.scalar(0)] * length

    def pick(self, tensor: Tensor, k: int) -> Picks:
        """The ``k`` largest entries as they travel; the rest is the residual."""
        exact = [self.scalar(x) + r for x, r in zip(tensor.double().tolist(), self.residual, strict=True)]
        picks = {i: self._rounded(exact[i]) for i in k_largest(dict(enumerate(exact)), k)}
        self.residual = [x - picks[i] if i in picks else x for i, x in enumerate(exact)]
        return picks

    def _rounded(self, value: Any) -> Any:
        return self.scalar(torch.tensor(float(value), dtype=torch.float64).to(self.dtype).double().item())


def k_largest(values: Picks, k: int) -> list[int]:
    return sorted(values, key=lambda index: (-abs(values[index]), index))[:k]


def topk(ranks: list[ReferenceRank], tensors: list[Tensor], k: int) -> Tensor:
    total: Picks = {}
    for rank, tensor in zip(ranks, tensors, strict=True):
        for index, value in rank.pick(tensor, k).items():
            total[index] = total.get(index, rank.scalar(0)) + value
    return _mean(total, ranks)


def gtopk(ranks: list[ReferenceRank], tensors: list[Tensor], k: int) -> Tensor:
    """Survivors of all merges are the result; everything else goes back to where it is known."""
    own = [rank.pick(tensor, k) for rank, tensor in zip(ranks, tensors, strict=True)]
    held: list[Picks] = list(own)
    dropped: list[tuple[int, Picks]] = []
    distance = 1
    while distance < len(ranks):
        for receiver in range(0, len(ranks) - distance, 2 * distance):
            zero = ranks[0].scalar(0)
            mine, theirs = held[receiver], held[receiver + distance]
            union = {i: mine.get(i, zero) + theirs.get(i, zero) for i in mine.keys() | theirs.keys()}
            kept = k_largest(union, k)
            held[receiver] = {i: union[i] for i in kept}
            dropped.append((receiver, {i: v for i, v in union.items() if i not in kept}))
        distance *= 2
    result = held[0]
    for number, picks in enumerate(own):
        _give_back(ranks[number], {i: v for i, v in picks.items() if i not in result})
    for number, picks in dropped:
        _give_back(ranks[number], {i: v for i, v in picks.items() if i in result})
    return _mean(result, ranks)


def _give_back(rank: ReferenceRank, picks: Picks) -> None:
    for index, value in picks.items():
        rank.residual[index] += value


def _mean(total: Picks, ranks: list[ReferenceRank]) -> Tensor:
    first = ranks[0]
    mean = [total.get(i, first.scalar(0)) / first.scalar(len(ranks)) for i in range(len(first.residual))]
    return torch.tensor([float(x) for x in mean], dtype=torch.float64).to(first.dtype)
