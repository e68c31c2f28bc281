"""Who is told of beside the rank that is slow: whoever passes its delay on, or is slow, too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from timing_logger.analysis.stragglers.own_times import _passed_on, _why_not_others
from timing_logger.analysis.stragglers.rank_facts import NotNamed


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


@pytest.mark.parametrize(("n", "told"), [(2, [0, 1]), (3, [0, 1, 2]), (5, [0, 1, 2])])
def test_of_the_first_three_others_it_is_said_why_they_are_not_named(n: int, told: list[int]) -> None:
    times: Any = SimpleNamespace(ranks=range(n), step_range=lambda steps: (0, len(steps) - 1))
    slow = SimpleNamespace(level=0.5, kind="persistent", steps=np.arange(9))
    gate = SimpleNamespace(passed=False)
    others: Any = [SimpleNamespace(column=column, slow=slow, gates=(gate,)) for column in range(n)]
    found = [fact for fact in _why_not_others(times, others, None) if isinstance(fact, NotNamed)]
    assert [(fact.rank, fact.failed) for fact in found] == [(rank, (gate,)) for rank in told]
