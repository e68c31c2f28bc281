"""Slow hosts by hand: which are judged, by what they are slow, and which parties they take in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hand_made_cases import POLICY, candidate_of, case_of

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.who.candidates import COST, LONGER
from timing_logger.analysis.verdict.who.culprits import _is_part, slow_hosts, with_hosts
from timing_logger.analysis.verdict.who.lockstep import Bond, Hosts, Party, may_be_its_work, slow_of_hosts
from timing_logger.analysis.verdict.who.pricing import Pricing, Slowed
from timing_logger.analysis.verdict.who.slow_steps import SlowSteps

HOSTS = ["a", "a", "b", "b", "c", "c"]


class Costing:
    """Prices by which any ranks cost as much."""

    plays_again = True

    def __init__(self, ms: float) -> None:
        self._ms = ms

    def saved_ms(self, chosen: Sequence[object], candidates: Sequence[object]) -> float:
        return self._ms

    def harm_ms(self, ones: Sequence[Slowed]) -> Floats:
        return np.full(len(ones), self._ms)


def costing(ms: float = 100.0) -> Pricing:
    return Costing(ms)  # type: ignore[return-value]


def times_of_hosts(factor: float = 2.0, columns: Sequence[int] = (2, 3)) -> Floats:
    """Return times of ranks that vary by themselves, of which some stall in the first half of the steps."""
    self_ms = 10.0 * np.exp(np.random.default_rng(2).normal(0.0, 0.02, (60, 6)))
    self_ms[:30, list(columns)] *= factor
    return self_ms


def hosts_of(case: Case) -> Hosts:
    found = Hosts.of(case)
    assert found is not None
    return found


def test_hosts_are_judged_if_there_are_two_and_one_has_two_ranks() -> None:
    self_ms = np.ones((4, 3))
    assert Hosts.of(case_of(self_ms)) is None
    assert Hosts.of(case_of(self_ms, hosts=["a", "a", "a"])) is None
    assert Hosts.of(case_of(self_ms, hosts=["a", "b", "c"])) is None
    assert hosts_of(case_of(self_ms, hosts=["a", "a", "b"])).names == ["a", "b"]


def test_a_host_is_held_against_the_typical_ranks_of_the_others() -> None:
    self_ms = np.array([[1.0, 2.0, 8.0, 9.0, 3.0, 4.0]])
    found = hosts_of(case_of(self_ms, hosts=HOSTS))
    assert found.baseline_ms[0].tolist() == [3.0, 3.0, 1.0, 1.0, 1.0, 1.0]
    assert found.relative[0] == pytest.approx([1 / 3, 8 / 3, 1.0])
    assert found.ratios[0] == pytest.approx(np.log([1 / 3, 8.0, 3.0]))


def test_ranks_are_held_against_those_of_their_role_on_other_hosts() -> None:
    self_ms = np.array([[1.0, 10.0, 2.0, 20.0, 3.0, 30.0]])
    found = hosts_of(case_of(self_ms, hosts=HOSTS, roles=["x", "y"] * 3))
    assert found.baseline_ms[0].tolist() == [2.0, 20.0, 1.0, 10.0, 1.0, 10.0]
    assert found.relative[0] == pytest.approx([0.5, 1.0, 1.5])


@pytest.mark.parametrize(
    ("hosts", "is_one"),
    [("aabbcc", True), ("aabccc", True), ("aaabbb", True), ("aaaabb", False), ("abbbbb", False)],
)
def test_a_host_must_have_several_ranks_and_leave_as_many_to_the_others(hosts: str, is_one: bool) -> None:
    case = case_of(np.ones((4, 6)), hosts=list(hosts))
    assert hosts_of(case).is_one_of_several(case, 0) is is_one


@pytest.mark.parametrize(("level", "is_alone"), [(0.38, True), (0.37, False)])
def test_all_ranks_of_a_host_must_be_as_slow_as_it_is(level: float, is_alone: bool) -> None:
    logs = np.zeros((40, 6))
    logs[:, 2], logs[:, 3] = 0.5, level
    case = case_of(np.exp(logs), hosts=HOSTS)
    slow = SlowSteps(1, np.arange(40), "persistent", 0.5, 9.0)
    assert bool(hosts_of(case).is_slow_alone(case, slow)) is is_alone


@pytest.mark.parametrize(("level", "is_alone"), [(0.37, True), (0.38, False), (0.6, False)])
def test_no_rank_of_another_host_may_be_as_slow(level: float, is_alone: bool) -> None:
    logs = np.zeros((40, 6))
    logs[:, 2:4], logs[:, 5] = 0.5, level
    case = case_of(np.exp(logs), hosts=HOSTS)
    slow = SlowSteps(1, np.arange(40), "persistent", 0.5, 9.0)
    assert bool(hosts_of(case).is_slow_alone(case, slow)) is is_alone


def test_a_slow_host_is_a_party_of_its_ranks_with_its_gates() -> None:
    (found,) = slow_hosts(case_of(times_of_hosts(), hosts=HOSTS), costing())
    assert (found.columns, found.bond) == ((2, 3), Bond("host", 1, "b", 2, False))
    assert found.first.slow.steps.tolist() == list(range(30))
    gates = {gate.name: gate.value for gate in found.first.gates}
    assert gates[COST] == pytest.approx(0.3, rel=0.05)
    assert gates[LONGER] == 0.1
    assert [one.slow.column for one in found.candidates] == [2, 3]


def test_a_host_that_costs_too_little_is_not_named() -> None:
    case = case_of(times_of_hosts(), hosts=HOSTS)
    assert slow_hosts(case, costing(9.9)) == []
    assert len(slow_hosts(case, costing(10.0))) == 1
    (unknown,) = slow_hosts(case, costing(float("nan")))
    assert LONGER not in {gate.name for gate in unknown.first.gates}


def test_a_host_whose_ranks_vary_together_may_have_one_slow_rank() -> None:
    self_ms = times_of_hosts()
    self_ms[:, 3], self_ms[:, 1], self_ms[:, 5] = self_ms[:, 2], self_ms[:, 0], self_ms[:, 4]
    self_ms *= np.exp(np.random.default_rng(3).normal(0.0, 0.002, self_ms.shape))
    assert slow_hosts(case_of(self_ms, hosts=HOSTS), costing()) == []


def test_several_kinds_of_slow_steps_of_a_host_are_one() -> None:
    ratios = np.zeros((200, 8))
    ratios[20:50, 1] = 0.5
    ratios[[80, 100, 120, 140], 1] = 0.9
    last = slow_of_hosts(ratios, POLICY)[-1]
    assert (len(last.steps), last.kind, last.are_single, last.level) == (34, "intermittent", True, 0.5)
    ratios[80:] = 0.0
    assert [one.kind for one in slow_of_hosts(ratios, POLICY)] == ["bounded"]


# -- with parties of ranks ----------------------------------------------------------------------------------


def party(*columns: int, at: np.ndarray | None = None, ms: float = 1.0) -> Party:
    at = np.arange(20) if at is None else at
    one = candidate_of(columns[0], at, n_ranks=6, excess_ms=np.full(len(at), ms))
    return Party(tuple(replace(one, column=column) for column in columns))


@pytest.mark.parametrize(
    ("other", "is_part"),
    [
        (party(2), True), (party(2, 3), True), (party(2, 4), False),
        (party(2, at=np.arange(10, 30)), True), (party(2, at=np.arange(11, 31)), False),
    ],
)  # fmt: skip
def test_ranks_of_a_slow_host_that_share_half_of_their_slow_steps_are_part_of_it(
    other: Party, is_part: bool
) -> None:
    assert _is_part(other, party(2, 3), case_of(np.ones((40, 6)))) is is_part


def test_a_host_takes_the_place_of_its_ranks_and_the_costliest_party_comes_first() -> None:
    case = case_of(times_of_hosts(), hosts=HOSTS)
    dear, cheap = party(0, ms=99.0), party(5, ms=0.1)
    found = with_hosts(case, [cheap, party(2), dear, party(3)], costing())
    assert [its.columns for its in found] == [(0,), (2, 3), (5,)]


def test_without_a_slow_host_the_parties_stay_as_they_are() -> None:
    parted = [party(5, ms=0.1), party(0)]
    assert with_hosts(case_of(np.ones((40, 6)), hosts=HOSTS), parted, costing()) == parted


# -- or its work --------------------------------------------------------------------------------------------


def as_host(*columns: int, kind: str = "persistent") -> Party:
    its = party(*columns)
    slow = its.first.slow._replace(kind=kind)  # type: ignore[arg-type]
    return Party(tuple(replace(one, slow=slow) for one in its.candidates), Bond("host", 1, "a", len(columns)))


def test_half_of_the_ranks_that_always_are_slow_on_one_host_may_have_more_to_do() -> None:
    case = case_of(np.ones((40, 6)))
    assert may_be_its_work(case, as_host(0, 1, 2))
    assert not may_be_its_work(case, as_host(0, 1))
    assert not may_be_its_work(case, as_host(0, 1, 2, kind="bounded"))
    assert not may_be_its_work(case, replace(as_host(0, 1, 2), bond=Bond("something")))
    assert not may_be_its_work(case_of(np.ones((40, 6)), roles=["x"] * 6), as_host(0, 1, 2))
