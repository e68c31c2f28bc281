"""Who costs most once something is repaired, in runs that are made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hand_made_cases import case_of

from timing_logger.analysis.counterfactual.repaired import Repairing
from timing_logger.analysis.counterfactual.what_if import _answered, _slowest, parsed
from timing_logger.analysis.rows.arrays import Floats
from timing_logger.errors import FixError
from timing_logger.results.plain import UNLOGGED
from timing_logger.results.what_if import Slowest

EVEN_MS = np.full((6, 4), 10.0)


def slow(*columns: int) -> Floats:
    """Return times of four ranks in six steps, of which these take 4 ms more, each in steps of its own."""
    self_ms = EVEN_MS.copy()
    for place, column in enumerate(columns):
        self_ms[place :: len(columns), column] += 4.0
    return self_ms


def slowest(self_ms: Floats, *fixes: str, **changed: Any) -> Slowest | None:
    case, chosen = case_of(self_ms, **changed), parsed(fixes)
    judgement: Any = SimpleNamespace(case=case, verdict=SimpleNamespace(cause=None), slow={})
    run = Repairing(judgement)
    return _slowest(run, run.repair(chosen), chosen)


def test_the_rank_that_costs_most_is_told_with_what_it_costs() -> None:
    its = slowest(slow(2, 2, 1))
    assert its == Slowest(rank=2, operation="FORWARD", cost_ms=pytest.approx(16.0))


def test_who_is_repaired_is_told_no_more_but_the_next_one() -> None:
    assert slowest(slow(2), "rank=2") is None
    its = slowest(slow(2, 2, 1), "rank=2", wall_ms=500.0)
    assert its is not None
    assert (its.rank, its.cost_ms) == (1, pytest.approx(8.0))


def test_where_all_take_as_long_nobody_is_told() -> None:
    assert slowest(EVEN_MS) is None


@pytest.mark.parametrize(("every", "run_ms", "is_told"), [
    (1, 2390.0, True), (1, 2410.0, False), (10, 23_900.0, True), (10, 24_100.0, False),
])  # fmt: skip
def test_who_costs_less_than_a_hundredth_of_the_run_is_not_told(
    every: int, run_ms: float, is_told: bool
) -> None:
    assert (slowest(slow(2), wall_ms=run_ms, recorded_every=every) is not None) is is_told


def test_the_operation_is_one_that_is_not_repaired() -> None:
    operation_ms = np.stack([slow(2) / 2, slow(2) / 4])
    named = {"operations": ["DATA", UNLOGGED], "operation_ms": operation_ms}
    for fixes, operation in (((), "DATA"), (("without=DATA",), UNLOGGED)):
        its = slowest(slow(2), *fixes, in_gaps_ms={"DATA": operation_ms[0]}, **named)
        assert its is not None
        assert (its.rank, its.operation) == (2, operation)


def test_an_answer_has_the_length_of_the_run_and_what_is_gained_of_it() -> None:
    judgement: Any = SimpleNamespace(
        case=case_of(slow(2)), verdict=SimpleNamespace(cause=None, why=None), slow={}
    )
    answer = _answered(judgement, parsed(["rank=2"]))
    assert (answer.run_ms, answer.gain_ms, answer.gain_share) == (
        1000.0, pytest.approx(24.0), pytest.approx(0.024)
    )  # fmt: skip
    assert (answer.assumed_gain_ms, answer.slowest, answer.why_unjudged, answer.plays_again) == (
        None, None, None, False
    )  # fmt: skip


def test_a_repair_that_is_named_twice_is_made_once() -> None:
    assert [str(fix) for fix in parsed(["rank=2", "rank=1", "rank=2"])] == ["rank=2", "rank=1"]


@pytest.mark.parametrize("fix", ["group=1.5", "group=2kB", "rank=1kB", "bytes=", "=3", "bytes=-1"])
def test_a_number_that_says_nothing_is_refused(fix: str) -> None:
    with pytest.raises(FixError):
        parsed([fix])


@pytest.mark.parametrize("fix", ["rank=0", "group=8", "bytes=0.25", "bytes=0", "bucket=25kB"])
def test_a_number_that_says_something_is_taken(fix: str) -> None:
    assert [str(one) for one in parsed([fix])] == [fix]
