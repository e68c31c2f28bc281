"""A rank that leaves communication late is told, though no comparison of own work shows it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from test_account import row, table

from timing_logger.analysis import stragglers
from timing_logger.analysis.stragglers.facts.reasons import LeavesLate
from timing_logger.report.verdict_wording import verdict_sentence


def leaving(late_ms: float, *, every: int = 1, works_ms: float = 20.0) -> pd.DataFrame:
    """Steps of four ranks, of which rank 1 works so long, and leaves the ALLREDUCE late in every so many."""
    rng, now, rows = np.random.default_rng(1), np.zeros(4), []
    for step in range(60):
        came = now + np.array([20.0, works_ms, 20.0, 20.0]) * np.exp(0.03 * rng.normal(size=4))
        for rank in range(4):
            left = came.max() + 2 + (late_ms if rank == 1 and step % every == 0 else 0.0)
            of = {"group_size": 4, "seq": step, "iteration": step}
            rows.append(row(rank, "BACKWARD", now[rank], came[rank], iteration=step))
            rows.append(row(rank, "ALLREDUCE", came[rank], left, **of))
            now[rank] = left
    return table(*rows)


@pytest.mark.parametrize("every", [1, 10])
def test_a_rank_that_leaves_communication_late_is_told_and_the_run_not_called_healthy(every: int) -> None:
    verdict = stragglers(leaving(5.0 * every, every=every))
    assert (verdict.judged, type(verdict.why)) == (False, LeavesLate)
    assert isinstance(verdict.why, LeavesLate)
    assert (verdict.why.rank, verdict.why.late_ms) == (1, pytest.approx(5.0, abs=0.1))
    assert "rank 1 leaves communication later than its peers, by 5.0 ms a step" in verdict_sentence(verdict)


def test_ranks_that_wait_for_one_that_leaves_with_the_others_are_not_told_that_it_leaves_late() -> None:
    assert stragglers(leaving(0.0)).judged
    assert stragglers(leaving(0.0, works_ms=26.0)).ranks == (1,)
