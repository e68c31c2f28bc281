"""Which of the slow ranks explain the lost time, and how likely they do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hand_made_cases import POLICY, candidate_of, case_of, steps

from timing_logger.analysis.rows.arrays import Floats, Ints
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.who import culprits as tested
from timing_logger.analysis.verdict.who.candidates import COST, GAP, LONGER, Candidate
from timing_logger.analysis.verdict.who.culprits import EXPLAINED, Culprits, likelihoods
from timing_logger.analysis.verdict.who.lockstep import Bond, Party
from timing_logger.analysis.verdict.who.pricing import Pricing
from timing_logger.results.facts import Gate
from timing_logger.results.policy import Policy
from timing_logger.results.verdict import Suspect

DEAR = Gate(COST, 0.1, 0.01, True)
LITTLE = Gate(GAP, 0.08, 0.10, False)
CHEAP = Gate(COST, 0.0, 0.01, False)


class Explaining:
    """Prices by which each rank explains its own share of the lost time, and costs so many ms times that."""

    plays_again = True

    def __init__(self, *shares: float, ms: float = 1000.0) -> None:
        self._shares, self._ms = shares, ms

    def explained(self, chosen: Sequence[Candidate], candidates: Sequence[Candidate]) -> float:
        return sum(self._shares[one.column] for one in chosen)

    def saved_ms(self, chosen: Sequence[Candidate], candidates: Sequence[Candidate]) -> float:
        return self._ms * self.explained(chosen, candidates)

    def harm_ms(self, ones: Sequence[object]) -> Floats:
        return np.full(len(ones), 500.0)


def by(*shares: float, ms: float = 1000.0) -> Pricing:
    return Explaining(*shares, ms=ms)  # type: ignore[return-value]


def party(column: int, *, at: Ints | None = None, gates: Sequence[Gate] = (DEAR,), ms: float = 1.0) -> Party:
    at = np.arange(20) if at is None else at
    return Party((candidate_of(column, at, gates=gates, excess_ms=np.full(len(at), ms), n_ranks=8),))


def case(
    n_ranks: int = 8, n_steps: int = 40, *, hosts: list[str] | None = None, from_gaps: bool = False
) -> Case:
    return case_of(np.full((n_steps, n_ranks), 10.0), hosts=hosts, from_gaps=from_gaps)


def fewest(parted: Sequence[Party], *shares: float, policy: Policy = POLICY) -> tuple[list[int], Gate | None]:
    of = replace(case(), policy=policy)
    found = [one for its in parted for one in its.candidates]
    chosen, gate = tested._fewest_that_explain(of, parted, found, by(*shares))
    return [its.first.column for its in chosen], gate


# -- the fewest that explain it -----------------------------------------------------------------------------


def test_parties_are_taken_until_they_explain_enough() -> None:
    parted = [party(column) for column in range(3)]
    assert fewest(parted, 0.5, 0.3, 0.1) == ([0, 1], Gate(EXPLAINED, 0.8, 0.8, True))
    assert fewest(parted, 0.8, 0.3, 0.1) == ([0], Gate(EXPLAINED, 0.8, 0.8, True))


def test_if_all_explain_too_little_none_is_chosen() -> None:
    assert fewest([party(0), party(1)], 0.5, 0.25) == ([], Gate(EXPLAINED, 0.75, 0.8, False))
    assert fewest([], 0.5) == ([], None)


def test_one_that_may_not_be_named_is_passed_over_and_counts_beside_another() -> None:
    parted = [party(0, gates=[LITTLE]), party(1), party(2, gates=[LITTLE]), party(3, gates=[CHEAP])]
    assert fewest(parted, 0.9, 0.5, 0.4, 0.9)[0] == [1, 2]
    assert fewest(parted[:1], 0.9) == ([], None)


def test_if_it_takes_too_many_none_is_chosen_and_the_gate_is_that_of_those_before() -> None:
    parted = [party(column) for column in range(4)]
    assert fewest(parted, 0.2, 0.2, 0.2, 0.3) == ([], Gate(EXPLAINED, pytest.approx(0.6), 0.8, False))


# -- too many -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_slow", "too_many"), [(3, False), (4, True)])
def test_half_of_a_role_that_is_slow_at_once_is_too_many(n_slow: int, too_many: bool) -> None:
    assert tested._too_many(case(), [party(column) for column in range(n_slow)]) is too_many


@pytest.mark.parametrize(("n_slow", "too_many"), [(4, False), (5, True)])
def test_more_than_half_of_a_role_that_are_slow_in_turn_are_too_many(n_slow: int, too_many: bool) -> None:
    chosen = [party(column, at=steps(column)) for column in range(n_slow)]
    assert tested._too_many(case(), chosen) is too_many


@pytest.mark.parametrize(("n_crowded", "too_many"), [(2, False), (3, True)])
def test_half_of_a_role_may_be_slow_at_once_in_a_twentieth_of_the_steps(
    n_crowded: int, too_many: bool
) -> None:
    chosen = [party(column, at=np.arange(n_crowded)) for column in range(4)]
    assert tested._too_many(case(), chosen) is too_many


def test_one_of_two_ranks_is_not_too_many_and_both_are() -> None:
    assert not tested._too_many(case(2), [party(0)])
    assert tested._too_many(case(2), [party(0), party(1)])
    assert tested._too_many(case(2), [party(0, at=steps(1)), party(1, at=steps(2))])


def test_a_rank_alone_in_its_role_is_not_too_many() -> None:
    assert not tested._too_many(case(1), [party(0)])


def test_where_a_host_is_slow_hosts_count_in_place_of_ranks() -> None:
    of_host = party(0)
    both = Party((of_host.first, *(replace(of_host.first, column=column) for column in (1, 2, 3))))
    hosts = ["a"] * 4 + ["b", "b", "c", "c"]
    assert tested._too_many(case(hosts=hosts), [both])
    as_host = replace(both, bond=Bond("host", 1, "a", 4))
    assert not tested._too_many(case(hosts=hosts), [as_host])
    assert tested._too_many(case(hosts=hosts), [as_host, party(4)])


def test_slow_ranks_of_several_roles_may_be_one_delay_that_is_passed_on_where_rows_do_not_tell() -> None:
    first = party(0)
    other = Party((replace(first.first, column=4, role="b"),))
    assert not tested._too_many(case(), [first, other])
    assert tested._too_many(case(from_gaps=True), [first, other])
    assert not tested._too_many(case(from_gaps=True), [first, party(4)])


# -- suspects -----------------------------------------------------------------------------------------------


def suspect(likelihood: float = 0.75, share: float = 0.6) -> Suspect:
    return Suspect((0,), "FORWARD", share, likelihood)


@pytest.mark.parametrize(
    ("likelihood", "share", "is_probable"), [(0.75, 0.6, True), (0.74, 0.6, False), (0.75, 0.59, False)]
)
def test_a_probable_culprit_is_likely_and_explains_most(
    likelihood: float, share: float, is_probable: bool
) -> None:
    assert tested._is_probable(case(), party(0), suspect(likelihood, share)) is is_probable


def test_who_may_not_be_suspected_or_is_too_many_is_not_probable() -> None:
    assert not tested._is_probable(case(), party(0, gates=[CHEAP]), suspect())
    three, four = (Party(tuple(party(column).first for column in range(n))) for n in (3, 4))
    assert tested._is_probable(case(), three, suspect())
    assert not tested._is_probable(case(), four, suspect())


def suspects(ordered: Sequence[Party], n_named: int, *shares: float) -> tuple[Suspect, ...]:
    found = [one for its in ordered for one in its.candidates]
    return tested._suspects(case(10), ordered, n_named, found, by(*shares))


def test_there_is_a_suspect_for_each_set_of_ranks_that_others_wait_for() -> None:
    unminded = party(2, gates=[DEAR, Gate(LONGER, 0.0, 0.01, False)])
    found = suspects([party(0), party(1), unminded, party(0, at=steps(30, 31))], 1, 0.5, 0.2, 0.9)
    assert [(one.ranks, one.operation, one.share) for one in found] == [
        ((0,), "FORWARD", 0.5), ((1,), "FORWARD", 0.2)
    ]  # fmt: skip
    assert suspects([unminded], 0, 0.1, 0.1, 0.1) == ()


def test_there_are_eight_suspects_at_most() -> None:
    assert len(suspects([party(column) for column in range(9)], 0, *[0.1] * 9)) == 8


@pytest.mark.parametrize(("share", "said"), [(1.2, 1.0), (-0.1, 0.0), (math.nan, 0.0), (0.4, 0.4)])
def test_the_share_of_a_suspect_is_from_0_to_1_and_0_where_it_is_unknown(share: float, said: float) -> None:
    assert suspects([party(0)], 0, share)[0].share == said


def test_single_steps_are_no_likelier_a_ranks_own_than_their_chance_says() -> None:
    single = candidate_of(0, are_single=True, z=0.0, gates=[DEAR], excess_ms=np.full(20, 9.0))
    assert suspects([Party((single,))], 1, 0.5)[0].likelihood == 0.5
    assert suspects([party(0, ms=9.0)], 1, 0.5)[0].likelihood > 0.99


# -- how likely ---------------------------------------------------------------------------------------------


def everywhere(column: int, ms: float) -> Party:
    return party(column, at=np.arange(40), ms=ms)


def test_a_party_that_costs_more_than_enough_in_each_step_and_most_is_certain() -> None:
    found = likelihoods(case(), [everywhere(0, 2.0), everywhere(1, 1.0)], 1)
    assert found == {(0,): 1.0, (1,): 0.0}
    assert likelihoods(case(), [everywhere(0, 2.0), everywhere(1, 1.0)], 2) == {(0,): 1.0, (1,): 1.0}


@pytest.mark.parametrize(("ms", "likelihood"), [(0.26, 1.0), (0.24, 0.0)])
def test_a_party_that_costs_too_little_of_the_run_is_no_culprit(ms: float, likelihood: float) -> None:
    assert likelihoods(case(), [everywhere(0, ms)], 1) == {(0,): likelihood}  # 1% of 1000 ms in 40 steps


def test_of_two_places_the_third_is_the_rival_of_the_first_two() -> None:
    parted = [everywhere(0, 1.0), everywhere(1, 3.0), everywhere(2, 2.0)]
    assert likelihoods(case(), parted, 2) == {(0,): 0.0, (1,): 1.0, (2,): 1.0}


def test_a_party_that_was_slow_several_times_costs_what_it_did_each_time_and_once_in_a_step() -> None:
    parted = [party(0, at=np.arange(30), ms=1.5), party(0, at=np.arange(20, 40), ms=1.2), everywhere(1, 1.3)]
    found = likelihoods(case(), parted, 1)
    assert 0.5 < found[0,] < 1.0
    assert likelihoods(case(), [parted[0], parted[1], everywhere(1, 1.19)], 1)[0,] == 1.0


def test_where_a_party_was_slow_twice_in_a_step_the_dearer_time_counts() -> None:
    parted = [everywhere(0, 1.5), party(0, at=np.arange(20), ms=1.2), everywhere(1, 1.3)]
    assert likelihoods(case(), parted, 1) == {(0,): 1.0, (1,): 0.0}


def test_costs_beyond_rivals_are_held_against_the_place_to_take_or_keep() -> None:
    cost_ms = np.array([[5.0, 3.0, 1.0], [5.0, 4.0, 2.0]])
    first, second, third = tested._beyond_rivals(cost_ms, 1)
    assert (first.tolist(), second.tolist(), third.tolist()) == ([2.0, 1.0], [-2.0, -1.0], [-4.0, -3.0])
    assert tested._beyond_rivals(cost_ms, 3)[2].tolist() == [2.0, 3.0]
    assert tested._beyond_rivals(cost_ms, 2)[2].tolist() == [-2.0, -2.0]


# -- all together -------------------------------------------------------------------------------------------


def slow_run(factor: float = 2.0, columns: Sequence[int] = (1,), n_ranks: int = 6) -> Case:
    self_ms = np.full((40, n_ranks), 10.0)
    self_ms[:, list(columns)] *= factor
    return case_of(self_ms, wall_ms=800.0)


def culprits(of: Case, *shares: float, ms: float = 1000.0) -> Culprits:
    return tested.culprits(of, by(*shares, ms=ms))


def test_the_rank_that_explains_the_lost_time_is_named_with_its_cost_and_slow_steps() -> None:
    of = slow_run()
    found = culprits(of, 0.0, 0.9, *[0.0] * 4)
    assert ([its.columns for its in found.named], found.probable, found.cost_ms) == ([(1,)], None, 900.0)
    assert {rank: len(its) for rank, its in found.slow_steps(of.times).items()} == {1: 40}
    assert [one.ranks for one in found.suspects] == [(1,)]


@pytest.mark.parametrize(("share", "is_probable"), [(0.79, True), (0.59, False)])
def test_a_rank_that_explains_less_is_probable_or_not(share: float, is_probable: bool) -> None:
    found = culprits(slow_run(), 0.0, share, *[0.0] * 4)
    assert (found.named, found.probable is not None) == ([], is_probable)
    assert found.cost_ms == pytest.approx(1000.0 * share if is_probable else 0.0)
    assert (found.last_gate is not None and found.last_gate.value) == share


@pytest.mark.parametrize(("cost_ms", "is_enough"), [(8.0, True), (7.9, False)])
@pytest.mark.parametrize("share", [1.0, 0.75])
def test_a_rank_that_costs_less_than_a_hundredth_of_the_run_is_neither_named_nor_probable(
    share: float, cost_ms: float, is_enough: bool
) -> None:
    found = culprits(slow_run(), 0.0, share, *[0.0] * 4, ms=cost_ms / share)
    assert (bool(found.named), found.probable is not None) == (
        is_enough and share == 1.0, is_enough and share < 1.0
    )  # fmt: skip


def test_nobody_is_a_culprit_of_an_even_run() -> None:
    found = culprits(slow_run(1.0), *[0.0] * 6)
    assert (found.named, found.probable, found.last_gate, found.suspects) == ([], None, None, ())
    assert found.slow_steps(slow_run().times) == {}


def test_the_slow_steps_of_a_rank_are_those_of_all_its_parties() -> None:
    both = [party(3, at=steps(1, 5)), party(3, at=steps(5, 9)), party(2, at=steps(7))]
    found = Culprits([], both, None, 0.0, None, ())
    slow = found.slow_steps(case().times)
    assert {rank: its.tolist() for rank, its in slow.items()} == {3: [1, 5, 9], 2: [7]}
    probable = found._replace(named=[], probable=both[0])
    assert {rank: its.tolist() for rank, its in probable.slow_steps(case().times).items()} == {3: [1, 5]}
