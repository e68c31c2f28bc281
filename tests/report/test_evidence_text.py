"""Facts in words: what may make ranks slow as one, and how often transfers are slow."""

from __future__ import annotations

import pytest

from timing_logger.analysis.stragglers.facts import SlowTransfers, Transfer
from timing_logger.analysis.stragglers.rank_facts import ActAsOne
from timing_logger.report.evidence_text import sentence

LINK = Transfer("ALLREDUCE", "world", None, None, None)


@pytest.mark.parametrize(("n_hosts", "shared"), [(2, "storage, a network"), (0, "a host, storage")])
def test_ranks_of_several_hosts_may_share_a_network_and_others_a_host(n_hosts: int, shared: str) -> None:
    said = sentence(ActAsOne((1, 2), "something", n_hosts, "", 0, None))
    assert f"they share something ({shared}), or wait for each other" in said


def test_how_often_transfers_are_slow_is_said_where_they_are_compared_with_their_own_usual_time() -> None:
    assert sentence(SlowTransfers(LINK, 6.0, 2.0, "usual", 7, 40)) == (
        "ALLREDUCE in group world take 6 ms without waiting in 7 of 40 steps, 3.0 times what they take in "
        "the others (2 ms)."
    )
    assert " steps" not in sentence(SlowTransfers(LINK, 6.0, 2.0, "before", 7, 40))
