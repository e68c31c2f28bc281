"""Put columns of several parts, of which each has some, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def joined_columns(
    parts: Sequence[Mapping[str, Any]], lengths: Sequence[int], blank: float
) -> dict[str, Any]:
    """Return the columns of all parts, by name.

    Args:
        parts: the columns that each part has.
        lengths: how many entries those of each part have.
        blank: stands in the entries of a part for a column that it lacks.
    """
    if len(parts) == 1:
        return dict(parts[0])
    names = {name: column.dtype for part in parts for name, column in part.items()}
    return {
        name: np.concatenate(
            [part.get(name, np.full(n, blank, dtype)) for part, n in zip(parts, lengths, strict=True)]
        )
        for name, dtype in names.items()
    }
