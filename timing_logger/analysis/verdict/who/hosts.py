"""Find hosts all of whose ranks are slow in the same steps, while those of no other host are.

A host is judged like a rank: by its typical rank, against the typical ranks of the other hosts in the same
step. So one of two hosts can be slow, though that is half of the ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from timing_logger.analysis.rows.roles import NO_ROLE
from timing_logger.analysis.rows.table_types import Floats, Ints
from timing_logger.analysis.step_times import peers
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.who.candidates import Candidate, gates_of
from timing_logger.analysis.verdict.who.lockstep import Bond, Party, shared_steps, vary_together
from timing_logger.analysis.verdict.who.pricing import Pricing, slowed, waiting_gate
from timing_logger.analysis.verdict.who.slow_steps import SlowSteps, slow_together
from timing_logger.results.policy import Policy
from timing_logger.results.rank_facts import Gate


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
    hosts = _Hosts.of(case)
    if hosts is None:
        return []
    found: list[Party] = []
    slow_of_all = _slow_of_hosts(hosts.ratios, case.policy)
    for slow in sorted(slow_of_all, key=lambda slow: -slow.level * len(slow.steps)):
        if not hosts.is_one_of_several(case, slow.column) or not hosts.is_slow_alone(case, slow):
            continue
        party = _gated(case, hosts.party(case, slow), pricing)
        if party.first.may_be_named and not any(_is_part(party, other, case) for other in found):
            bond = replace(party.bond, together=vary_together(case, party))
            found += [] if bond.together else [replace(party, bond=bond)]
    return found


def may_be_its_work(case: Case, party: Party) -> bool:
    """Tell whether a slow host may as well have more to do: it has half of the ranks, and always is slow.

    Where roles are stated, ranks of one role do equal work.
    """
    is_half = len(party.columns) >= case.policy.max_slow_share_of_role * len(case.times.ranks)
    is_always_slow = party.first.slow.kind == "persistent"
    return party.bond.kind == "host" and is_half and is_always_slow and set(case.by_role) == {NO_ROLE}


def _slow_of_hosts(ratios: Floats, policy: Policy) -> list[SlowSteps]:
    """Return the slow steps of each host, and of one with several kinds of them all as one.

    The typical rank of a host has so little noise that a few stalls in a row are a stretch, beside those that
    are single steps.
    """
    found = slow_together(ratios, policy)
    for column in sorted({slow.column for slow in found}):
        its = [slow for slow in found if slow.column == column]
        steps = np.unique(np.concatenate([slow.steps for slow in its]))
        if len(steps) > max(len(slow.steps) for slow in its):
            level, z = float(np.nanmedian(ratios[steps, column])), max(slow.z for slow in its)
            singles = any(slow.are_single for slow in its)
            found.append(SlowSteps(column, steps, "intermittent", level, z, singles))
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


@dataclass(frozen=True, eq=False)
class _Hosts:
    """The times of hosts, by their typical ranks.

    Attributes:
        names: the hosts.
        columns: the columns of the ranks of each.
        relative: the time of a typical rank relative to those of the other hosts, steps x hosts.
        ratios: log(time / median of the typical ranks of the other hosts), steps x hosts.
        baseline_ms: for each rank the median of the typical ranks of its role on other hosts, steps x ranks.
    """

    names: list[str]
    columns: list[Ints]
    relative: Floats
    ratios: Floats
    baseline_ms: Floats

    @classmethod
    def of(cls, case: Case) -> _Hosts | None:
        """Return the hosts of a run; None if there are not several, or they are not known."""
        names, columns = list(case.by_host), list(case.by_host.values())
        if len(names) < 2 or max(map(len, columns)) < 2:
            return None
        baseline_ms, by_role = np.full(case.times.self_ms.shape, np.nan), []
        for of_role in case.by_role.values():
            typical_ms = _typical_ms(case, of_role, columns)
            others_ms = peers.peer_medians(typical_ms)
            for at, its in enumerate(columns):
                baseline_ms[:, _both(case, its, of_role)] = others_ms[:, [at]]
            by_role.append(typical_ms / peers.row_medians(typical_ms)[:, None])
        stacked = np.stack(by_role)
        relative = peers.column_medians(stacked.reshape(len(by_role), -1)).reshape(stacked.shape[1:])
        return cls(names, columns, relative, peers.peer_ratios(relative), baseline_ms)

    def is_one_of_several(self, case: Case, host: int) -> bool:
        """Tell whether a host has several ranks, and leaves each role as many on other hosts."""
        its, most = self.columns[host], case.policy.max_slow_share_of_role
        shares = (np.isin(of_role, its).mean() for of_role in case.by_role.values())
        return len(its) > 1 and all(share <= most for share in shares)

    def is_slow_alone(self, case: Case, slow: SlowSteps) -> bool:
        """Tell whether all ranks of a host are as slow as the host in these steps, and no other rank is."""
        levels = peers.column_medians(peers.log_ratios(case.times.self_ms, self.baseline_ms)[slow.steps])
        least = case.policy.min_level_ratio * np.maximum(levels, slow.level)
        alike = np.flatnonzero(np.minimum(levels, slow.level) >= least)
        return np.array_equal(alike, self.columns[slow.column])

    def party(self, case: Case, slow: SlowSteps) -> Party:
        """Return the ranks of a slow host as a party, with the gates of the host."""
        its, steps = self.columns[slow.column], slow.steps
        excess_ms = (case.times.self_ms - self.baseline_ms)[np.ix_(steps, its)]
        cost_ms = float(np.median(np.maximum(excess_ms, 0.0).sum(axis=0)))
        scores = peers.relative_scores(self.relative[steps])
        gates = gates_of(
            slow, peers.column_medians(self.ratios[steps]), scores, case.times.share_of_run(cost_ms),
            peers.n_known_steps(self.ratios), case.policy,
        )  # fmt: skip
        score = float(scores[slow.column])
        ones = [
            _candidate(case, int(column), slow, excess_ms[:, at], score, gates)
            for at, column in enumerate(its)
        ]
        return Party(tuple(ones), Bond("host", 1, self.names[slow.column], len(its)))


def _typical_ms(case: Case, of_role: Ints, columns: Sequence[Ints]) -> Floats:
    """Return the time of the typical rank of a role on each host, steps x hosts; NaN where it has none."""
    found = np.full((len(case.times.self_ms), len(columns)), np.nan)
    for at, its in enumerate(columns):
        both = _both(case, its, of_role)
        if len(both):
            found[:, at] = peers.row_medians(case.times.self_ms[:, both])
    return found


def _both(case: Case, its: Ints, of_role: Ints) -> Ints:
    """Return those columns of the first that are among the second."""
    is_of_role = np.zeros(len(case.times.ranks), np.bool_)
    is_of_role[of_role] = True
    return its[is_of_role[its]]


def _candidate(
    case: Case, column: int, slow: SlowSteps, excess_ms: Floats, score: float, gates: tuple[Gate, ...]
) -> Candidate:
    """Return a rank of a slow host, with the slow steps and the gates of the host."""
    role, of_role = next((role, its) for role, its in case.by_role.items() if column in its)
    ratios = peers.peer_ratios(case.times.self_ms[:, of_role])
    of_rank = slow._replace(column=int(np.searchsorted(of_role, column)))
    return Candidate(of_rank, role, column, of_role, ratios, excess_ms, score, gates, case.policy)
