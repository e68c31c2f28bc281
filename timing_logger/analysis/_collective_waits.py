"""How long a rank waited for others in collectives that synchronise them, without comparing clocks.

The rank that arrives last waits for nobody, so what the others spent beyond the least duration of the
same collective is their wait: d_i - min_j d_j.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis._frames import Floats
from timing_logger.analysis._self_time import Integers


class Waits(NamedTuple):
    """Waits in collectives, one entry for each row; NaN where a collective is not known from all its ranks.

    Attributes:
        own_ms: how long the rank waited.
        others_ms: how long the other ranks of the collective waited, on average.
    """

    own_ms: Floats
    others_ms: Floats


def clock_free_waits(instances: Integers, durations_ms: Floats, group_sizes: Floats) -> Waits:
    """The waits of each row.

    Args:
        instances: which collective the row is of; each rank has at most one row of it.
        durations_ms: how long the rank was in it.
        group_sizes: how many ranks took part; NaN if unknown: then any two ranks are compared.
    """
    order = np.argsort(instances, kind="stable")
    ordered_ms = durations_ms[order]
    _, firsts, counts = np.unique(instances[order], return_index=True, return_counts=True)
    if not len(firsts):
        return Waits(np.zeros(0), np.zeros(0))
    members = np.repeat(counts, counts)
    own = ordered_ms - np.repeat(np.minimum.reduceat(ordered_ms, firsts), counts)
    others = (np.repeat(np.add.reduceat(own, firsts), counts) - own) / np.maximum(members - 1, 1)
    # More rows than ranks: several groups share the name, and whose rows belong together nobody knows.
    is_whole = (members >= 2) & (np.isnan(group_sizes[order]) | (members == group_sizes[order]))
    waits = Waits(np.empty(len(order)), np.empty(len(order)))
    waits.own_ms[order] = np.where(is_whole, own, np.nan)
    waits.others_ms[order] = np.where(is_whole, others, np.nan)
    return waits
