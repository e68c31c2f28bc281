"""A rank that leaves communication late is told, though no comparison of own work shows it."""

from __future__ import annotations

import pytest
from policy_runs import leaving

from timing_logger.analysis import stragglers
from timing_logger.analysis.stragglers.facts import LeavesLate
from timing_logger.report.verdict_wording import verdict_sentence


@pytest.mark.parametrize("every", [1, 10])
def test_a_rank_that_leaves_communication_late_is_told_and_the_run_not_called_healthy(every: int) -> None:
    verdict = stragglers(leaving(5.0 * every, every=every))
    assert (verdict.judged, type(verdict.why)) == (False, LeavesLate)
    assert isinstance(verdict.why, LeavesLate)
    assert (verdict.why.rank, verdict.why.late_ms) == (1, pytest.approx(5.0, abs=0.1))
    assert "rank 1 leaves collectives later than its peers, by 5.0 ms a step" in verdict_sentence(verdict)


def test_ranks_that_wait_for_one_that_leaves_with_the_others_are_not_told_that_it_leaves_late() -> None:
    assert stragglers(leaving(0.0)).judged
    assert stragglers(leaving(0.0, works_ms=26.0)).ranks == (1,)


def test_nobody_is_said_to_leave_late_by_less_than_the_clocks_may_be_wrong() -> None:
    assert not stragglers(leaving(8.0, clocks_s=1e-3)).judged
    assert stragglers(leaving(8.0, clocks_s=4e-3)).judged
    assert stragglers(leaving(8.0, every=10, clocks_s=float("nan"))).judged


def test_a_root_that_has_more_to_do_than_the_others_is_not_said_to_leave_late() -> None:
    timings = leaving(5.0)
    gathered = timings.assign(operation=timings["operation"].replace("ALLREDUCE", "GATHER"), peer=1)
    assert not isinstance(stragglers(gathered).why, LeavesLate)
