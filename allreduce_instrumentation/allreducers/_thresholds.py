"""What is large enough in Ok-Topk: a threshold that is found exactly now and then, and used in between."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_DIGIT_BITS = 4
_DIGITS = 1 << _DIGIT_BITS
_AS_INTEGER = {torch.float32: torch.int32, torch.float64: torch.int64}


def fits(passed: int, wanted: int) -> bool:
    """Whether a threshold that lets ``passed`` entries through still serves where ``wanted`` are wanted.

    It does within a quarter; what is too many is cut, what is too few is made up for by the residuals.
    """
    return 3 * wanted <= 4 * passed <= 5 * wanted


def kth_largest(magnitudes: Tensor, k: int, add_over_ranks: Callable[[Tensor], Tensor]) -> tuple[float, int]:
    """The ``k``-th largest of all ranks' ``magnitudes``, and how many that equal it are among the k.

    Bits of floats that are not negative order as the floats do, so the answer is found exactly, four
    bits at a time: each step adds up 16 counters over the ranks, however many entries there are.

    Args:
        magnitudes: this rank's; 1-D, float32 or float64, none negative or NaN; on the host.
        k: from 1 to the number of magnitudes of all ranks together.
        add_over_ranks: sums an int64 tensor over the ranks; called equally often on all of them.
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
