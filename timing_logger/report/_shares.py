"""Parts of a whole in percent, rounded so that they add up."""

from __future__ import annotations

import math
from collections.abc import Sequence

_IN_PERCENT = 1000
"""Tenths of a percent in a whole."""


def percents(parts: Sequence[float]) -> list[str]:
    """Return each part as a percentage of their sum, with one decimal; together they are 100.0%.

    Each is rounded down, and what then lacks goes to those that lost most. So each is off by less than 0.1.
    """
    whole = math.fsum(parts)
    if not whole > 0:
        return ["-" for _ in parts]
    exact = [_IN_PERCENT * part / whole for part in parts]
    tenths = [math.floor(value) for value in exact]
    most_lost = sorted(range(len(parts)), key=lambda i: tenths[i] - exact[i])
    for i in most_lost[: _IN_PERCENT - sum(tenths)]:
        tenths[i] += 1
    return [f"{value // 10}.{value % 10}%" for value in tenths]
