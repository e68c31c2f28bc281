"""Count the steps of a process that records no iteration: each collective of all ranks ends one.

All ranks number these alike, from whichever row on they are read. ``rounds_of`` finds the loop of a program
in all of its rows; in those of a few seconds it would find another one for each rank.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from timing_logger.analysis.operations import is_collective, synchronises_all_ranks
from timing_logger.analysis.table_types import Bools, Floats, Ints


def with_counted_steps(rows: pd.DataFrame) -> tuple[pd.DataFrame, Bools]:
    """Return the rows of a process with the number of the collective that ends their step as iteration.

    Args:
        rows: rows of one process, none of which states an iteration.

    Returns:
        The rows, and for each whether its step is complete: whether that collective is among them.
    """
    ends = _ends_of_steps(rows)
    start_s = rows["start_counter"].to_numpy(np.float64)
    order = np.argsort(start_s[ends], kind="stable")
    ends = ends[order]
    next_one = np.searchsorted(start_s[ends], start_s)
    complete: Bools = (next_one < len(ends)) & ~np.isnan(start_s)
    number: Floats = np.full(len(rows), np.nan)
    number[complete] = rows["seq"].to_numpy(np.float64, na_value=np.nan)[ends[next_one[complete]]]
    return rows.assign(iteration=pd.array(number, "Float64").astype("Int64")), complete


def _ends_of_steps(rows: pd.DataFrame) -> Ints:
    """Return the positions of the collectives that end steps: of the largest group, the first by name."""
    operation = rows["operation"].astype(object)
    tells = {name: is_collective(name) and synchronises_all_ranks(name) for name in operation.unique()}
    wanted = operation.map(tells).to_numpy(np.bool_) & rows["seq"].notna().to_numpy(np.bool_)
    size = rows["group_size"].to_numpy(np.float64, na_value=0.0)
    wanted &= size == size[wanted].max(initial=0.0)
    groups = rows["group"].astype(object).to_numpy()
    if wanted.any():
        wanted &= groups == min(groups[wanted])
    return np.flatnonzero(wanted)
