"""A verdict by own times, by hand: of whom it is, whose delay others pass on, and what is said beside it."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hand_made_cases import candidate_of, case_of

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.verdict.own_times import (
    _as_one,
    _how_slow_together,
    _Judged,
    _of_ranks,
    _of_whom,
    _passed_on,
    _probably,
    _verdict,
    _waited_for,
    _why_not,
    by_own_times,
)
from timing_logger.analysis.verdict.who.candidates import COST, WAITED
from timing_logger.analysis.verdict.who.culprits import Culprits
from timing_logger.analysis.verdict.who.lockstep import Bond, Party
from timing_logger.analysis.verdict.who.pricing import pricing_of
from timing_logger.results.facts import (
    ActAsOne,
    ExplainedWithout,
    FewSteps,
    Gate,
    MostWaitedFor,
    NotNamed,
    SlowHost,
    SlowRank,
    VaryAlone,
)
from timing_logger.results.verdict import Suspect, Verdict

CHEAP = Gate(COST, 0.0, 0.01, False)
UNMINDED = Gate(WAITED, 0.0, 0.5, False)
EVEN = case_of(np.full((40, 4), 10.0))
NOBODY = Culprits([], [], None, 0.0, None, ())


def party(*columns: int, bond: Bond | None = None) -> Party:
    return Party(tuple(candidate_of(column) for column in columns), bond or Bond())


# -- of whom it is -----------------------------------------------------------------------------------------


def test_a_role_that_is_slower_than_the_others_is_told_before_ranks_that_are_late_in_turn() -> None:
    self_ms = np.full((40, 6), 10.0)
    self_ms[:, 3:] = 20.0
    case = case_of(self_ms, roles=["a", "a", "a", "b", "b", "b"])
    found = by_own_times(case, pricing_of(case)).verdict
    assert (found.verdict, found.ranks) == ("role", (3, 4, 5))


@pytest.mark.parametrize(("gates", "verdict"), [((UNMINDED,), "healthy"), ((CHEAP,), "diffuse")])
def test_time_is_not_lost_to_a_rank_that_nobody_waits_for(gates: tuple[Gate, ...], verdict: str) -> None:
    self_ms = np.full((40, 4), 10.0)
    self_ms[:, 1] = 30.0
    late = candidate_of(1, np.arange(40), level=math.log(3), gates=gates)
    assert _of_whom(case_of(self_ms), NOBODY._replace(candidates=[late])).verdict == verdict


def test_only_of_a_healthy_run_it_is_said_with_the_verdict_that_it_is_of_few_steps() -> None:
    in_turn_ms = np.full((12, 4), 10.0)
    in_turn_ms[np.arange(12), np.arange(12) % 4] = 30.0
    for self_ms, verdict, n_facts in ((np.full((12, 4), 10.0), "healthy", 1), (in_turn_ms, "diffuse", 0)):
        found = _verdict(case_of(self_ms, wall_ms=0.0), NOBODY)
        assert found.verdict == verdict
        few = [fact for fact in found.evidence if isinstance(fact, FewSteps)]
        assert few == [FewSteps(12, nobody_is_slow=True)] * n_facts


def test_who_is_named_is_told_once_and_the_others_with_why_they_are_not() -> None:
    its, other = candidate_of(0), candidate_of(1, gates=[CHEAP])
    found = NOBODY._replace(candidates=[its, other], named=[Party((its,))], cost_ms=40.0)
    verdict = _of_ranks(EVEN, found)
    assert (verdict.verdict, verdict.ranks, verdict.cost_ms) == ("rank", (0,), 40.0)
    said = [fact for fact in verdict.evidence if isinstance(fact, SlowRank | NotNamed)]
    assert [(type(fact), fact.rank) for fact in said] == [(SlowRank, 0), (NotNamed, 1)]


def test_what_ties_ranks_is_told_of_them_alone_and_not_beside_others_that_are_named() -> None:
    host = party(1, 2, bond=Bond("host", 1, "node1", 2))
    for named, bond, ranks in (([host], "host", (1, 2)), ([host, party(3)], "", (1, 2, 3))):
        candidates = [one for each in named for one in each.candidates]
        verdict = _of_ranks(EVEN, NOBODY._replace(candidates=candidates, named=named))
        assert (verdict.bond, verdict.ranks) == (bond, ranks)


@pytest.mark.parametrize(("share", "kind"), [(0.9, SlowRank), (0.7, NotNamed)])
def test_of_a_suspect_that_explains_enough_it_is_not_said_that_it_does_not(share: float, kind: type) -> None:
    its = candidate_of(1)
    found = NOBODY._replace(candidates=[its], suspects=(Suspect((1,), "FORWARD", share, 0.9),))
    assert type(_probably(EVEN, found, Party((its,))).evidence[0]) is kind


@pytest.mark.parametrize(("verdict", "ranks"), [("suspect", [1]), ("rank", [1]), ("diffuse", [])])
def test_slow_steps_are_those_of_a_rank_that_is_named_or_suspected(verdict: Any, ranks: list[int]) -> None:
    judged = _Judged(EVEN, Verdict(verdict=verdict), NOBODY._replace(probable=party(1)))
    assert list(judged.judgement().slow) == ranks


# -- who is waited for -------------------------------------------------------------------------------------


def waited_for(*for_each: float) -> Any:
    """Return what is said of rank 0, of ranks that were waited for this long in each step."""
    times: Any = SimpleNamespace(
        waits=SimpleNamespace(for_it_ms=np.tile(for_each, (40, 1))), ranks=range(7, 7 + len(for_each))
    )
    return _waited_for(times, candidate_of(0))


def test_it_is_told_which_part_of_the_waiting_was_for_a_rank_if_no_other_had_more() -> None:
    assert waited_for(6.0, 2.0, 0.0, 0.0) == (MostWaitedFor(7, 0.75),)
    assert waited_for(4.0, 4.0, 0.0, 0.0) == (MostWaitedFor(7, 0.5),)
    assert waited_for(4.0, 4.1, 0.0, 0.0) == ()


def test_where_nobody_waited_nothing_is_told_of_it() -> None:
    assert waited_for(0.0, 0.0) == ()


def passing_on(
    *,
    self_ms: Floats | None = None,
    unmatched_ms: float = 5.0,
    longest_ms: float = 4.0,
    named: tuple[int, ...] = (0,),
) -> tuple[int, ...]:
    """Return who passes on the delay of rank 0: of three ranks, half of the waiting was for rank 1."""
    shape = (40, 3)
    waits = SimpleNamespace(
        for_it_ms=np.tile([5.0, 5.0, 0.0], (40, 1)), longest_ms=np.full(shape, longest_ms),
        unmatched_ms=np.full(shape, unmatched_ms),
    )  # fmt: skip
    its_ms = np.tile([30.0, 10.0, 10.0], (40, 1)) if self_ms is None else self_ms
    times: Any = SimpleNamespace(waits=waits, self_ms=its_ms, ranks_of=tuple)
    found: Any = _passed_on(times, candidate_of(0), named)
    return tuple(int(rank) for fact in found for rank in fact.ranks)


def test_a_rank_passes_a_delay_on_that_may_have_waited_itself_and_is_not_slow() -> None:
    assert passing_on() == (1,)
    assert passing_on(unmatched_ms=4.0) == ()
    assert passing_on(self_ms=np.tile([30.0, 30.0, 10.0], (40, 1))) == ()
    assert passing_on(self_ms=np.tile([30.0, 29.0, 10.0], (40, 1))) == (1,)


def test_a_rank_that_is_named_itself_passes_nothing_on() -> None:
    assert passing_on(named=(0, 1)) == ()


# -- what is said beside -----------------------------------------------------------------------------------


def test_it_is_said_why_a_rank_is_not_named_by_its_own_gates_first() -> None:
    last = Gate("explained", 0.9, 0.8, True)
    missed = last._replace(value=0.7, passed=False)
    fails, passes = candidate_of(1, gates=[CHEAP]), candidate_of(1)
    for gate in (None, last, missed):
        found = _why_not(EVEN.times, fails, gate)
        assert isinstance(found, NotNamed)
        assert found.failed == (CHEAP,)
    by_last = [_why_not(EVEN.times, passes, gate) for gate in (None, last, missed)]
    assert [type(fact) for fact in by_last] == [SlowRank, ExplainedWithout, NotNamed]
    assert isinstance(by_last[1], ExplainedWithout)
    assert by_last[1].explained_share == 0.9


def test_a_slow_host_is_told_by_its_name_and_other_ranks_by_the_first() -> None:
    host, *_ = _how_slow_together(EVEN.times, party(1, 2, bond=Bond("host", 1, "node1", 2)))
    assert isinstance(host, SlowHost)
    assert (host.host, host.slowness.slow_steps) == ("node1", 20)
    ranks, *_ = _how_slow_together(EVEN.times, party(1, 2, bond=Bond("something")))
    assert isinstance(ranks, SlowRank)
    assert (ranks.rank, ranks.slowness.times_as_long) == (1, pytest.approx(math.exp(0.5)))


@pytest.mark.parametrize(
    ("together", "kinds"), [(None, [ActAsOne]), (True, [ActAsOne]), (False, [ActAsOne, VaryAlone])]
)
def test_it_is_told_in_what_ranks_vary_alone_only_if_that_is_known(
    together: bool | None, kinds: list[type]
) -> None:
    its = party(1, 2, bond=Bond("something", together=together))
    assert [type(fact) for fact in _as_one(EVEN.times, its)] == kinds
    assert _as_one(EVEN.times, party(1)) == ()
