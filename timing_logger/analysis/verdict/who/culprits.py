"""Select the slow ranks that explain the lost time: those that certainly cause it, or a probable one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import Bools, Floats, Ints
from timing_logger.analysis.step_times.noise import likelihood_above_0
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.who.candidates import LONGER, WAITED, Candidate, candidates, operation_of
from timing_logger.analysis.verdict.who.lockstep import (
    Hosts,
    Party,
    bond_of,
    parties,
    shared_steps,
    slow_of_hosts,
    vary_together,
)
from timing_logger.analysis.verdict.who.pricing import Pricing, slowed
from timing_logger.results.facts import Gate
from timing_logger.results.verdict import Suspect

EXPLAINED = "share of the lost time that is explained"

_MAX_SUSPECTS = 8


class Culprits(NamedTuple):
    """The slow ranks of a run, and those of them that explain the lost time.

    Attributes:
        candidates: the ranks that may be slow, the costliest first.
        named: the parties that certainly cause the lost time; empty if none is certain.
        probable: the party that probably does, if none is certain.
        cost_ms: cost of the named parties together, or of the probable one, in ms.
        last_gate: the fraction of the lost time that the named parties explain, or that those explain that
            came closest to being named.
        suspects: the named parties first, then by cost.
    """

    candidates: list[Candidate]
    named: list[Party]
    probable: Party | None
    cost_ms: float
    last_gate: Gate | None
    suspects: tuple[Suspect, ...]

    def slow_steps(self, times: StepTimes) -> dict[int, Ints]:
        """Return the positions of the slow steps of each rank that is named or, if none is, probable."""
        chosen = self.named or ([self.probable] if self.probable else [])
        found: dict[int, Ints] = {}
        for candidate in _all(chosen):
            rank, steps = times.ranks[candidate.column], candidate.slow.steps
            found[rank] = np.union1d(found.get(rank, steps), steps)
        return found


def culprits(case: Case, pricing: Pricing) -> Culprits:
    """Find the slow ranks of a run, and select those that explain the lost time.

    Args:
        case: the run to be judged.
        pricing: what slow ranks cost.
    """
    least_share = case.policy.min_cost_share
    found = with_waiting(case, candidates(case), pricing)
    bound = [replace(party, bond=bond_of(case, party)) for party in parties(case, found)]
    parted = with_hosts(case, bound, pricing)
    chosen, last_gate = _fewest_that_explain(case, parted, found, pricing)
    cost_ms = pricing.saved_ms(_all(chosen), found) if chosen else 0.0
    if case.times.share_of_run(cost_ms) < least_share:
        chosen = []
    ordered = [*chosen, *(party for party in parted if party not in chosen)]
    suspects = _suspects(case, ordered, len(chosen), found, pricing)
    none_named = Culprits(found, [], None, 0.0, last_gate, suspects)
    if chosen and all(party.may_be_named for party in chosen):
        return none_named._replace(named=chosen, cost_ms=cost_ms)
    first = next((party for party in (chosen or parted) if party.first.is_waited_for), None)
    if first is not None and _is_probable(case, first, suspects[0]):
        cost_ms = pricing.saved_ms(first.candidates, found)
        least_share = case.policy.visible_cost_share if first.first.is_by_little else least_share
        if case.times.share_of_run(cost_ms) >= least_share:
            return none_named._replace(probable=first, cost_ms=cost_ms)
    return none_named


def _all(chosen: Sequence[Party]) -> list[Candidate]:
    return [candidate for party in chosen for candidate in party.candidates]


def _fewest_that_explain(
    case: Case, parted: Sequence[Party], found: Sequence[Candidate], pricing: Pricing
) -> tuple[list[Party], Gate | None]:
    """Return the fewest parties, costliest first, that explain enough; none if that takes too many."""
    chosen: list[Party] = []
    gate = None
    for party in parted:
        if not (party.first.may_be_named or (chosen and party.first.may_be_named_beside_another)):
            continue
        chosen.append(party)
        if _too_many(case, chosen):
            return [], gate
        share = pricing.explained(_all(chosen), found)
        gate = Gate.at_least(EXPLAINED, share, case.policy.min_explained_share)
        if gate.passed:
            return chosen, gate
    return [], gate


def _too_many(case: Case, chosen: Sequence[Party]) -> bool:
    """Tell whether the chosen parties are too many for any of them to be named.

    If half of a role (``max_slow_share_of_role``) is slow at once, there are no peers to be slow against; if
    more than half of it is slow in turn, the delay is not theirs in particular. Between logged communication
    there may be waiting that is not logged: then slow ranks in several roles may be one delay, passed on.
    Where a host is slow, hosts count in place of ranks.
    """
    times, policy = case.times, case.policy
    slow = np.zeros(times.self_ms.shape, np.bool_)
    for party in chosen:
        slow[np.ix_(party.first.slow.steps, np.array(party.columns))] = True
    by_host = any(party.bond.kind == "host" for party in chosen)
    for columns in case.by_role.values():
        of_role = _of_hosts(case, slow, columns) if by_host else slow[:, columns]
        too_many = policy.max_slow_share_of_role * of_role.shape[1]
        at_once, in_turn = of_role.sum(axis=1), int(of_role.any(axis=0).sum())
        crowded = (at_once > 1) & (at_once >= too_many)
        if crowded.mean() > policy.max_crowded_steps_share or in_turn > max(1.0, too_many):
            return True
    return times.from_gaps and len({candidate.role for candidate in _all(chosen)}) > 1


def _of_hosts(case: Case, slow: Bools, columns: Ints) -> Bools:
    """Return in which steps any rank of a role is slow on each host that has one, steps x hosts."""
    both = (np.intersect1d(its, columns) for its in case.by_host.values())
    return np.stack([slow[:, its].any(axis=1) for its in both if len(its)], axis=1)


def _is_probable(case: Case, party: Party, suspect: Suspect) -> bool:
    return (
        party.first.may_be_suspected
        and not _too_many(case, [party])
        and suspect.likelihood >= case.policy.min_likelihood
        and suspect.share >= case.policy.min_probably_explained_share
    )


def _suspects(
    case: Case, ordered: Sequence[Party], n_named: int, found: Sequence[Candidate], pricing: Pricing
) -> tuple[Suspect, ...]:
    """Make one suspect of each set of ranks that others wait for, after its costliest party."""
    minded = [party for party in ordered if party.first.is_waited_for]
    first_of: dict[tuple[int, ...], Party] = {}
    for party in minded:
        first_of.setdefault(party.columns, party)
    if not minded:
        return ()
    n_culprits = len({party.columns for party in ordered[:n_named]}) or 1
    likelihood, times = likelihoods(case, minded, n_culprits), case.times
    return tuple(
        Suspect(
            times.ranks_of(columns),
            operation_of(times, party.first)[0],
            _share(pricing, party, found),
            min(likelihood[columns], party.first.slow.likelihood),
        )
        for columns, party in list(first_of.items())[:_MAX_SUSPECTS]
    )


def _share(pricing: Pricing, party: Party, found: Sequence[Candidate]) -> float:
    share = pricing.explained(party.candidates, found)
    return 0.0 if math.isnan(share) else min(1.0, max(0.0, share))


# -- do others wait for them? ---------------------------------------------------------------------------


def with_waiting(case: Case, candidates: list[Candidate], pricing: Pricing) -> list[Candidate]:
    """Add to the gates of candidates that are not too cheap that others wait for them.

    If nobody does, the time of a rank delays nobody, or its peers log less than it does.
    """
    dear = [one for one in candidates if one.is_dear]
    if not dear:
        return candidates
    harm_ms = pricing.harm_ms(slowed(dear)).tolist()
    of = {id(one): ms for one, ms in zip(dear, harm_ms, strict=True) if not np.isnan(ms)}
    return [_waited_for(case, one, of[id(one)], pricing) if id(one) in of else one for one in candidates]


def _waited_for(case: Case, one: Candidate, ms: float, pricing: Pricing) -> Candidate:
    share = 0.0 if pricing.plays_again else case.times.share_of_run(ms)
    return replace(one, gates=(*one.gates, waiting_gate(case, one, ms, pricing)), waited_share=share)


def waiting_gate(case: Case, one: Candidate, ms: float, pricing: Pricing) -> Gate:
    """Return the condition that others wait for a candidate.

    Args:
        case: the run to be judged.
        one: the candidate.
        ms: by how much the run is longer for it, or how long others waited for it.
        pricing: what says so.
    """
    if pricing.plays_again:
        return Gate.at_least(LONGER, case.times.share_of_run(ms), case.policy.min_cost_share)
    return Gate.at_least(WAITED, ms / one.cost_ms, case.policy.min_waited_share)


# -- hosts ----------------------------------------------------------------------------------------------


def with_hosts(case: Case, parted: Sequence[Party], pricing: Pricing) -> list[Party]:
    """Return the parties with those of one host that is slow as one party; the costliest first.

    Args:
        case: the run to be judged.
        parted: the parties of ranks, whether or not they share a host.
        pricing: what slow ranks cost.
    """
    hosts = slow_hosts(case, pricing)
    if not hosts:
        return list(parted)
    others = [party for party in parted if not any(_is_part(party, host, case) for host in hosts)]
    return sorted([*hosts, *others], key=lambda party: -party.first.cost_ms)


def _is_part(party: Party, host: Party, case: Case) -> bool:
    shared = shared_steps(host.first, party.first)
    return set(party.columns) <= set(host.columns) and shared >= case.policy.min_shared_steps_share


def slow_hosts(case: Case, pricing: Pricing) -> list[Party]:
    """Return each host that passes the gates of a rank, and is slow as a whole and alone; costliest first.

    It is not taken for a slow host if its ranks are seen to wait for each other in something not logged.
    """
    hosts = Hosts.of(case)
    if hosts is None:
        return []
    found: list[Party] = []
    slow_of_all = slow_of_hosts(hosts.ratios, case.policy)
    for slow in sorted(slow_of_all, key=lambda slow: -slow.level * len(slow.steps)):
        if not hosts.is_one_of_several(case, slow.column) or not hosts.is_slow_alone(case, slow):
            continue
        party = _gated(case, hosts.party(case, slow), pricing)
        if party.first.may_be_named and not any(_is_part(party, other, case) for other in found):
            bond = replace(party.bond, together=vary_together(case, party))
            found += [] if bond.together else [replace(party, bond=bond)]
    return found


def _gated(case: Case, party: Party, pricing: Pricing) -> Party:
    """Add to the gates of a host that others wait for it; no gate if that is unknown.

    The ranks of a host are held together against what others do: one of them hides the others.
    """
    ones = party.candidates
    ms = pricing.saved_ms(ones, ones) if pricing.plays_again else float(pricing.harm_ms(slowed(ones)).sum())
    if np.isnan(ms):
        return party
    gates = (*party.first.gates, waiting_gate(case, party.first, ms, pricing))
    return replace(party, candidates=tuple(replace(one, gates=gates) for one in ones))


# -- how likely -----------------------------------------------------------------------------------------


def likelihoods(case: Case, parties: Sequence[Party], n_culprits: int) -> dict[tuple[int, ...], float]:
    """Return how likely each party is a culprit, by the party's columns.

    A party is a culprit if it costs enough of the run, and is among the ``n_culprits`` that cost most. If it
    owes its place to a few steps, or costs hardly more than the next, other steps like these might have put
    another there.
    """
    times = case.times
    columns = list(dict.fromkeys(party.columns for party in parties))
    cost_ms = np.zeros((len(times.iterations), len(columns)))
    for party in parties:  # a rank may have been slow several times
        steps, at = party.first.slow.steps, columns.index(party.columns)
        cost_ms[steps, at] = np.fmax(cost_ms[steps, at], party.first.excess_ms)
    beyond_enough_ms = cost_ms - case.policy.min_cost_share * times.run_ms / len(cost_ms)
    sure = [
        min(likelihood_above_0(beyond_enough_ms[:, at]), likelihood_above_0(beyond_rival_ms))
        for at, beyond_rival_ms in enumerate(_beyond_rivals(cost_ms, n_culprits))
    ]
    return dict(zip(columns, sure, strict=True))


def _beyond_rivals(cost_ms: Floats, n_culprits: int) -> list[Floats]:
    """Return by how much each costs more, in each step, than the one whose place it must take or keep.

    Args:
        cost_ms: steps x parties.
        n_culprits: the number of places.
    """
    costliest = np.argsort(-cost_ms.sum(axis=0), kind="stable").tolist()
    found = []
    for at, own_ms in enumerate(cost_ms.T):
        others = [other for other in costliest if other != at]
        rival_ms = cost_ms[:, others[n_culprits - 1]] if len(others) >= n_culprits else -1.0
        found.append(own_ms - rival_ms)
    return found
