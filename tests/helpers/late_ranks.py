"""Steps with one collective, to which some ranks come late."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from timing_files import record

from timing_logger.schema.record import Record

STEPS = 40


def steps(
    own_ms: Callable[[int, int], float], *, ranks: int = 4, n_steps: int = STEPS, **fields: Any
) -> list[list[Record]]:
    """An allreduce in each step: every rank leaves it 1 ms after the last one arrived.

    ``own_ms(rank, step)`` is what a rank does before it arrives.
    """
    rows: list[list[Record]] = [[] for _ in range(ranks)]
    begin_s = 1.0
    for step in range(n_steps):
        arrivals = [begin_s + own_ms(rank, step) / 1e3 for rank in range(ranks)]
        leave_s = max(arrivals) + 1e-3
        for rank, arrival_s in enumerate(arrivals):
            elapsed_ms = (leave_s - arrival_s) * 1e3
            rows[rank].append(
                record(
                    "ALLREDUCE_DENSE",
                    arrival_s,
                    elapsed_ms,
                    **{"iteration": step, "group_size": ranks, **fields},
                )
            )
        begin_s = leave_s
    return rows


def noise(rank: int, step: int) -> float:
    return random.Random(rank * 1000 + step).uniform(9.0, 11.0)


def late_by(ms: float, *ranks: int) -> Callable[[int, int], float]:
    return lambda rank, step: noise(rank, step) + (ms if rank in ranks else 0)
