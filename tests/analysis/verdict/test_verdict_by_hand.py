"""What becomes of a verdict by hand: where it is not known, transfers cost more, or the run hangs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hand_made_cases import case_of, times_of

from timing_logger.analysis.verdict.case import Case, Judgement
from timing_logger.analysis.verdict.verdict import (
    _absent,
    _as_far_as_known,
    _hosts_of,
    _rather_communication,
)
from timing_logger.analysis.verdict.who.pricing import BySteps
from timing_logger.reading.named_ranks import Lack
from timing_logger.results.facts import EndedBadly, NoRows, RanksLacking, UntimedCalls
from timing_logger.results.policy import Policy
from timing_logger.results.verdict import Suspect, Verdict

LACKS, BY_CHOICE = Lack(3, "the file of {} is empty"), Lack(4, "{} was to record nothing", by_choice=True)
UNTIMED = UntimedCalls(())


def even() -> Case:
    return case_of(np.full((20, 3), 10.0))


# -- as far as it is known ---------------------------------------------------------------------------------


def known(verdict: Verdict, *lacks: Lack, case: Case | None = None, untimed: Any = None) -> Verdict:
    case = case or even()
    return _as_far_as_known(verdict, case, lacks, BySteps(case.times, list(case.by_role.values())), untimed)


def test_a_healthy_run_of_which_all_is_known_is_judged() -> None:
    found = known(Verdict(verdict="healthy"))
    assert (found.judged, found.why, found.unjudged_ranks) == (True, None, ())


@pytest.mark.parametrize("kind", ["healthy", "diffuse", "communication"])
def test_nothing_is_said_of_all_ranks_where_rows_of_one_are_missing(kind: Any) -> None:
    found = known(Verdict(verdict=kind, cost_ms=5.0, cost_share=0.5), LACKS)
    assert (found.verdict, found.judged, found.cost_ms, found.cost_share) == ("healthy", False, 0.0, 0.0)
    assert isinstance(found.why, RanksLacking)
    assert found.why.ranks == (3,)
    assert found.evidence == (found.why,)
    assert found.unjudged_ranks == (0, 1, 2, 3)


def test_a_rank_that_is_slow_remains_so_where_rows_of_another_are_missing() -> None:
    found = known(Verdict(verdict="rank", ranks=(1,), cost_ms=5.0), LACKS)
    assert (found.verdict, found.judged, found.why, found.cost_ms) == ("rank", True, None, 5.0)
    assert [type(fact) for fact in found.evidence] == [RanksLacking]
    assert found.unjudged_ranks == (3,)


def test_a_rank_that_was_to_record_nothing_keeps_no_run_from_being_judged() -> None:
    found = known(Verdict(verdict="healthy"), BY_CHOICE)
    assert (found.judged, found.evidence, found.unjudged_ranks) == (True, (), (4,))
    assert _absent([BY_CHOICE]) is None
    absent = _absent([BY_CHOICE, LACKS, LACKS])
    assert absent is not None
    assert absent.ranks == (3,)


def test_calls_that_were_counted_only_leave_a_healthy_run_open_and_no_other() -> None:
    assert known(Verdict(verdict="healthy"), untimed=UNTIMED).why is UNTIMED
    assert known(Verdict(verdict="diffuse"), untimed=UNTIMED).judged


def test_of_several_reasons_missing_rows_come_first_and_untimed_calls_last() -> None:
    empty = case_of(np.zeros((0, 0)))
    assert known(Verdict(verdict="healthy"), case=empty, untimed=UNTIMED).why == NoRows()
    assert isinstance(known(Verdict(verdict="healthy"), LACKS, case=empty).why, RanksLacking)


# -- hosts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hosts", "told"),
    [
        ({0: "a", 1: "b"}, ("a", "b")),
        ({0: "b", 1: "b", 2: "a"}, ("b",)),
        ({0: "a", 1: "a"}, ()),
        ({0: "", 1: "b"}, ("b",)),
        ({1: "b", 2: "c"}, ("b",)),
        ({}, ()),
    ],
)
def test_hosts_are_told_once_each_where_there_are_several(
    hosts: dict[int, str], told: tuple[str, ...]
) -> None:
    assert _hosts_of(Verdict(verdict="rank", ranks=(0, 1)), hosts) == told


# -- rather communication ----------------------------------------------------------------------------------


def rather(verdict: Verdict, slow_ms: float | None) -> Verdict:
    slow: Any = SimpleNamespace(name="slow")
    its = None if slow_ms is None else Verdict(verdict="communication", cost_ms=slow_ms, evidence=(slow,))
    return _rather_communication(verdict, times_of(np.ones((5, 3))), its)


@pytest.mark.parametrize(
    ("kind", "slow_ms", "is_replaced"),
    [("rank", 10.0, False), ("rank", 10.5, True), ("diffuse", 9.0, False), ("healthy", 9.0, True),
     ("rank", None, False), ("healthy", None, False)],
)  # fmt: skip
def test_slow_transfers_replace_a_verdict_that_costs_less(
    kind: Any, slow_ms: float | None, is_replaced: bool
) -> None:
    found = rather(Verdict(verdict=kind, cost_ms=10.0), slow_ms)
    assert found.verdict == ("communication" if is_replaced else kind)


def test_what_is_known_of_ranks_is_kept_beside_slow_transfers() -> None:
    suspects, other = (Suspect((1,), "FORWARD", 0.5, 0.5),), NoRows()
    before = Verdict(
        verdict="rank", suspects=suspects, unjudged_ranks=(2,), evidence=(other,), ranks=(1,), cost_ms=1.0
    )
    found = rather(before, 50.0)
    assert (found.suspects, found.unjudged_ranks, found.ranks) == (suspects, (2,), ())
    assert (found.cost_ms, found.cost_share) == (50.0, 0.05)
    assert found.evidence[1:] == (other,)
    assert len(found.evidence) == 2


# -- its end -----------------------------------------------------------------------------------------------


def ended(
    verdict: Verdict, *, hangs: bool = True, are_comparable: bool = True, warning: str = "it hung"
) -> Verdict:
    end: Any = SimpleNamespace(state="hung", warning=warning, hangs=hangs, culprits=(2,))
    return Judgement(even(), verdict, are_comparable).ending_in(end).verdict


@pytest.mark.parametrize(
    ("verdict", "hangs"),
    [
        (Verdict(verdict="healthy", cost_ms=5.0), True),
        (Verdict(verdict="diffuse", cost_ms=5.0), True),
        (Verdict(verdict="rank", cost_ms=5.0), False),
        (Verdict(verdict="rank", cost_ms=0.0), True),
        (Verdict(verdict="rank", cost_ms=5.0, judged=False), True),
    ],
)
def test_a_run_that_hung_is_a_hang_unless_slow_ranks_cost_time(verdict: Verdict, hangs: bool) -> None:
    assert ended(verdict).verdict == ("hang" if hangs else "rank")
    assert ended(verdict, hangs=False).verdict == verdict.verdict
    assert ended(verdict, are_comparable=False).verdict == verdict.verdict


def test_a_hang_is_judged_and_names_who_hangs_in_no_operation() -> None:
    before = Verdict(verdict="diffuse", judged=False, why=NoRows(), ranks=(1,), operation="FORWARD")
    found = ended(before)
    assert (found.judged, found.why, found.ranks, found.operation) == (True, None, (2,), "")


def test_a_run_that_ended_badly_is_warned_of_before_all_else() -> None:
    before = Verdict(verdict="rank", cost_ms=5.0, evidence=(NoRows(),))
    assert ended(before).evidence == (EndedBadly("hung", "it hung"), NoRows())  # type: ignore[arg-type]
    assert ended(before, warning="").evidence == (NoRows(),)


def test_the_policy_that_decided_is_part_of_the_verdict() -> None:
    policy = Policy(min_slow_steps=33)
    end: Any = SimpleNamespace(state="ended", warning="", hangs=False, culprits=())
    case = case_of(np.ones((5, 3)), policy=policy)
    assert Judgement(case, Verdict(verdict="healthy")).ending_in(end).verdict.policy == policy
