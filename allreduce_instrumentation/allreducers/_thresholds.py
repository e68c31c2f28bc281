"""Thresholds of Ok-Topk: they are determined exactly from time to time, and reused in between."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

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
