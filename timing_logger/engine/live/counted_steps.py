"""Count the steps of a process that records no iteration: each collective of all ranks ends one.

All ranks number these alike, from whichever row on they are read. ``rounds_of`` finds the loop of a program
in all of its rows; in those of a few seconds it would find another one for each rank.
"""

from __future__ import annotations

import numpy as np

from timing_logger.analysis.arrays import each_text
from timing_logger.analysis.operations import is_collective, synchronises_all_ranks
from timing_logger.analysis.table_types import Bools, Floats, Ints
from timing_logger.engine.live.row_arrays import RowArrays


def counted_steps(rows: RowArrays) -> Floats:
    """Return for each row the number of the collective that ends its step; NaN if that is not among them.

    Args:
        rows: rows of one process, none of which states an iteration.
    """
    ends, start_s = _ends_of_steps(rows), rows.numbers["start_counter"]
    ends = ends[np.argsort(start_s[ends], kind="stable")]
    next_one = np.searchsorted(start_s[ends], start_s)
    complete: Bools = (next_one < len(ends)) & ~np.isnan(start_s)
    number: Floats = np.full(len(rows), np.nan)
    number[complete] = rows.numbers["seq"][ends[next_one[complete]]]
    return number


def _ends_of_steps(rows: RowArrays) -> Ints:
    """Return the positions of the collectives that end steps: of the largest group, the first by name."""
    wanted = each_text(
        rows.texts["operation"], lambda name: is_collective(name) and synchronises_all_ranks(name)
    )
    wanted &= ~np.isnan(rows.numbers["seq"])
    size = np.nan_to_num(rows.numbers["group_size"])
    wanted &= size == size[wanted].max(initial=0.0)
    groups, names = rows.texts["group"]
    if wanted.any():
        wanted &= each_text((groups, names), min(names[code] for code in set(groups[wanted].tolist())).__eq__)
    return np.flatnonzero(wanted)
