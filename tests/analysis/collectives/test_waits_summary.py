"""What is told of collectives beside the sums of waits."""

from __future__ import annotations

from account_rows import barrier, row, table

from timing_logger.analysis.collectives.waits import waits_and_states


def test_collectives_that_are_not_complete_are_counted_and_listed_once_each_with_why() -> None:
    alone = row(1, "ALLREDUCE", 20.0, 21.0, group_size=3, seq=1)
    found = waits_and_states(table(*barrier([0.0, 2.0, 5.0], 6.0), alone))
    assert found.states == {"complete": 1, "incomplete": 1}
    (flawed,) = found.flawed.to_dict("records")
    assert (flawed["group"], flawed["seq"], flawed["operation"]) == ("world", 1, "ALLREDUCE")
    assert flawed["state"] == "incomplete"
    assert "missing" in flawed["why"]
    assert found.totals["count"].tolist() == [1, 1, 1]
