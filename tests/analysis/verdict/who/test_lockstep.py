"""Ranks that act as one: which they are, and what is said to make them so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hand_made_cases import POLICY, candidate_of, case_of, steps

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.who.candidates import COST
from timing_logger.analysis.verdict.who.lockstep import (
    Bond,
    Party,
    _likeness,
    _others,
    _spread,
    as_slow,
    bond_of,
    parties,
    shared_steps,
    vary_together,
)
from timing_logger.results.facts import Gate

DEAR = Gate(COST, 0.1, 0.01, True)
HOSTS = ["a", "a", "b", "b", "c", "c"]


def noise(n_ranks: int = 6, n_steps: int = 60, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(0.0, 0.05, (n_steps, n_ranks))


def logs_of(tied: tuple[int, ...] = (), *, in_all: tuple[tuple[int, ...], ...] = ()) -> Floats:
    """Return the log times of 6 ranks; those that are tied vary together, and are slow in 20 steps."""
    logs = noise()
    for its in (*in_all, tied):
        logs[:, list(its)] = logs[:, list(its[:1])] + 0.1 * noise(len(its), seed=1)
    logs[:20, list(tied)] += 0.5
    return logs


def case_with(logs: Floats, hosts: list[str] | None = None) -> Case:
    return case_of(10.0 * np.exp(logs), hosts=hosts)


def party(*columns: int) -> Party:
    first = candidate_of(columns[0], n_ranks=6, gates=[DEAR])
    return Party((first, *(replace(first, column=column) for column in columns[1:])))


# -- parties ------------------------------------------------------------------------------------------------


def test_ranks_that_are_as_slow_and_vary_together_are_one_party() -> None:
    ones = [candidate_of(column, n_ranks=6, gates=[DEAR]) for column in (1, 2)]
    found = parties(case_with(logs_of((1, 2))), ones)
    assert [its.columns for its in found] == [(1, 2)]
    assert found[0].first is ones[0]


def test_ranks_that_are_as_slow_and_vary_by_themselves_are_parties_of_their_own() -> None:
    logs = noise()
    logs[:20, [1, 2]] += 0.5
    ones = [candidate_of(column, n_ranks=6, gates=[DEAR]) for column in (1, 2)]
    assert [its.columns for its in parties(case_with(logs), ones)] == [(1,), (2,)]


def test_a_rank_that_may_not_be_suspected_has_no_partners() -> None:
    cheap = Gate(COST, 0.001, 0.01, False)
    ones = [candidate_of(column, n_ranks=6, gates=[cheap]) for column in (1, 2)]
    assert [its.columns for its in parties(case_with(logs_of((1, 2))), ones)] == [(1,), (2,)]


@pytest.mark.parametrize(("n_shared", "n_parties"), [(10, 1), (9, 2)])
def test_another_candidate_of_a_partner_is_part_of_it_if_it_shares_half_of_its_steps(
    n_shared: int, n_parties: int
) -> None:
    other = candidate_of(2, np.arange(20 - n_shared, 40 - n_shared), n_ranks=6, gates=[DEAR])
    ones = [candidate_of(1, n_ranks=6, gates=[DEAR]), other]
    assert len(parties(case_with(logs_of((1, 2))), ones)) == n_parties


def test_another_candidate_of_the_same_rank_is_a_party_of_its_own() -> None:
    ones = [candidate_of(1, n_ranks=6, gates=[DEAR]), candidate_of(1, n_ranks=6, gates=[DEAR])]
    assert len(parties(case_with(logs_of((1, 2))), ones)) == 2


def test_the_shared_part_is_of_the_steps_of_the_other() -> None:
    one, other = candidate_of(at=steps(1, 2, 3, 4)), candidate_of(at=steps(4, 5))
    assert (shared_steps(one, other), shared_steps(other, one)) == (0.5, 0.25)


@pytest.mark.parametrize(("level", "is_alike"), [(0.376, True), (0.374, False), (0.66, True), (0.68, False)])
def test_ranks_are_as_slow_whose_levels_are_within_a_quarter(level: float, is_alike: bool) -> None:
    logs = np.zeros((40, 6))
    logs[:20, 1], logs[:20, 4] = 0.5, level
    assert as_slow(case_with(logs), candidate_of(1, n_ranks=6)).tolist() == ([1, 4] if is_alike else [1])


def test_ranks_of_other_roles_are_compared_with_their_own_peers() -> None:
    logs = np.zeros((40, 6))
    logs[:, 3:] += 2.0
    logs[:20, [1, 4]] += 0.5
    case = case_of(np.exp(logs), roles=["x"] * 3 + ["y"] * 3)
    assert as_slow(case, candidate_of(1, n_ranks=6)).tolist() == [1, 4]


def test_a_party_may_be_named_if_it_is_one_rank_or_its_host_makes_it_slow() -> None:
    both = party(1, 2)
    assert party(1).may_be_named
    assert [replace(both, bond=Bond(kind)).may_be_named for kind in ("host", "part of host")] == [True, True]
    assert [replace(both, bond=Bond(kind)).may_be_named for kind in ("waiting", "something", "")] == [
        False
    ] * 3


def test_the_columns_of_a_party_are_ascending_and_its_first_is_the_costliest() -> None:
    assert (party(4, 1, 3).columns, party(4, 1, 3).first.column) == ((1, 3, 4), 4)


# -- what makes them so -------------------------------------------------------------------------------------


def test_a_rank_alone_has_no_bond() -> None:
    assert bond_of(case_with(logs_of((1,)), HOSTS), party(1)) == Bond("", 0, "", 0, None)


def stalled(*columns: int) -> Floats:
    """Return the log times of 6 ranks that vary by themselves, some of which stall in the same steps."""
    logs = noise()
    logs[:20, list(columns)] += 0.5
    return logs


def test_all_ranks_of_a_host_that_vary_by_themselves_elsewhere_are_slow_for_their_host() -> None:
    assert bond_of(case_with(stalled(2, 3), HOSTS), party(2, 3)) == Bond("host", 1, "b", 2, False)


@pytest.mark.parametrize(("n_of_host", "kind"), [(4, "part of host"), (5, "something")])
def test_half_of_the_ranks_of_a_host_are_a_part_of_it_and_fewer_are_not(n_of_host: int, kind: str) -> None:
    hosts = ["a"] * n_of_host + ["b"] * (6 - n_of_host)
    assert bond_of(case_with(stalled(0, 1), hosts), party(0, 1)) == Bond(kind, 1, "a", n_of_host, False)


def test_it_is_not_the_host_if_a_rank_of_another_is_as_slow() -> None:
    assert bond_of(case_with(stalled(2, 3, 5), HOSTS), party(2, 3)).kind == "something"


def test_it_is_not_the_host_if_there_is_no_other_or_they_are_on_several() -> None:
    logs = stalled(2, 3)
    assert bond_of(case_with(logs, ["a"] * 6), party(2, 3)) == Bond("something", 1, "", 0, False)
    across = ["a", "a", "a", "b", "b", "b"]
    assert bond_of(case_with(logs, across), party(2, 3)) == Bond("something", 2, "", 0, False)


def test_ranks_whose_hosts_are_not_known_have_something_in_common() -> None:
    assert bond_of(case_with(stalled(2, 3)), party(2, 3)) == Bond("something", 0, "", 0, False)
    assert bond_of(case_with(logs_of((2, 3))), party(2, 3)) == Bond("something", 0, "", 0, True)


def test_ranks_that_vary_together_in_all_steps_wait_for_each_other() -> None:
    logs = logs_of((2, 3), in_all=((0, 1), (4, 5)))
    assert bond_of(case_with(logs, HOSTS), party(2, 3)) == Bond("waiting", 1, "b", 2, True)


def test_where_ranks_of_other_hosts_vary_by_themselves_it_is_unknown_what_ties_these() -> None:
    case = case_with(logs_of((2, 3)), HOSTS)
    assert vary_together(case, party(2, 3)) is None
    assert bond_of(case, party(2, 3)) == Bond("something", 1, "b", 2, None)


def test_of_ranks_that_always_are_slow_all_steps_are_looked_at() -> None:
    always = replace(party(2, 3).first, slow=party(2, 3).first.slow._replace(steps=np.arange(60)))
    its = Party((always, replace(always, column=3)))
    assert vary_together(case_with(logs_of((2, 3))), its) is True
    assert vary_together(case_with(noise()), its) is False


def test_ranks_that_vary_together_only_where_they_are_slow_do_not_wait_for_each_other() -> None:
    logs = stalled(2, 3)
    logs[:20, 3] = logs[:20, 2]
    assert vary_together(case_with(logs), party(2, 3)) is False


@pytest.mark.parametrize(
    ("size", "found"), [(0.4, False), (0.42, None), (0.58, None), (0.6, True)]
)  # the likeness is 1 - 2 * (1 - size) ** 2 / (1 + size ** 2)
def test_between_apart_and_together_it_is_unknown(size: float, found: bool | None) -> None:
    logs = np.where(np.arange(60) % 2, 0.1, -0.1)[:, None] * np.array([[0.0, 0.0, 1.0, size, 0.0, 0.0]])
    assert vary_together(case_with(logs), party(2, 3)) is found


# -- how alike ----------------------------------------------------------------------------------------------


def alternating(*sizes: float) -> Floats:
    """Return log times of ranks that change by twice these sizes from step to step."""
    return np.where(np.arange(20) % 2, 1.0, -1.0)[:, None] * np.array(sizes)[None, :]


def test_likeness_is_by_how_much_less_they_differ_than_from_others() -> None:
    logs = alternating(1.0, 1.5, 3.0)
    case = case_of(np.ones((20, 3)))
    across = (2.0**2 + 1.5**2) / 2
    assert _likeness(case, logs, np.array([0, 1])) == pytest.approx(1 - 0.5**2 / across)
    assert np.isnan(_likeness(case, alternating(1.0, 1.0, 1.0), np.array([0, 1])))


@pytest.mark.parametrize(("n_known", "is_known"), [(6, True), (5, False)])
def test_ranks_must_be_known_in_enough_changes_between_steps(n_known: int, is_known: bool) -> None:
    logs = alternating(1.0, 3.0)
    logs[n_known:] = np.nan
    found = _spread(case_of(np.ones((20, 2))), logs, np.array([0]), np.array([1]))
    assert np.isnan(found) == (not is_known)
    assert POLICY.min_lockstep_steps == 5


def test_the_others_are_some_of_the_same_roles_evenly_chosen() -> None:
    case = case_of(np.ones((3, 20)), roles=["x"] * 12 + ["y"] * 8)
    assert _others(case, np.array([0, 1])).tolist() == [2, 3, 4, 5, 7, 8, 9, 11]
    assert _others(case, np.array([12, 13])).tolist() == [14, 15, 16, 17, 18, 19]
