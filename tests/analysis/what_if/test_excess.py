"""Which ranks are worth a repair: those that take more than their peers, however little that is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from timing_logger.analysis.what_if.excess import by_excess


def worth_a_repair(*of_ranks_ms: float, quicker: float = 1.0) -> list[int]:
    """Return the ranks that take more than their peers, which take this long in each of three steps."""
    times = SimpleNamespace(ranks=range(len(of_ranks_ms)), self_ms=np.tile(of_ranks_ms, (3, 1)))
    case: Any = SimpleNamespace(times=times, by_role={"": np.arange(len(of_ranks_ms))})
    return by_excess(case, np.full((3, 1), quicker))


def test_ranks_that_take_most_beyond_their_peers_come_first() -> None:
    assert worth_a_repair(10.0, 14.0, 10.0, 12.0) == [1, 3]


def test_a_rank_that_takes_a_little_more_than_its_peers_is_among_them() -> None:
    assert worth_a_repair(10.0, 10.2, 10.0) == [1]


def test_where_all_take_as_long_there_is_none() -> None:
    assert worth_a_repair(10.0, 10.0, 10.0) == []
