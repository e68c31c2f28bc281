"""Who is waited for beside the rank that is slow: whoever passes its delay on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from timing_logger.analysis.stragglers.own_times import _passed_on


def passing_on(*for_each: float) -> tuple[int, ...]:
    """Return who passes a delay of rank 0 on, of ranks that were waited for this long in ms in each step."""
    steps, ranks = np.arange(5), len(for_each)
    self_ms = np.full((5, ranks), 10.0)
    self_ms[:, 0] = 30.0
    waits = SimpleNamespace(
        for_it_ms=np.tile(for_each, (5, 1)), longest_ms=np.zeros((5, ranks)),
        unmatched_ms=np.ones((5, ranks)),
    )  # fmt: skip
    times: Any = SimpleNamespace(waits=waits, self_ms=self_ms, ranks_of=tuple)
    candidate: Any = SimpleNamespace(slow=SimpleNamespace(steps=steps), column=0)
    found: Any = _passed_on(times, candidate, [0])
    return tuple(int(rank) for fact in found for rank in fact.ranks)


def test_a_rank_that_a_tenth_of_the_waiting_is_for_passes_a_delay_on() -> None:
    assert passing_on(79.0, 11.0, 10.0, 0.0) == (1, 2)


def test_a_rank_that_less_of_the_waiting_is_for_is_not_worth_naming() -> None:
    assert passing_on(80.0, 11.0, 9.0, 0.0) == (1,)
