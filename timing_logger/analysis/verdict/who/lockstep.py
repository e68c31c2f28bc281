"""Find ranks that act as one, slow in the same steps by the same amount, and what makes them so.

Where tensor-parallel ranks reduce inside their forward pass, and this is not logged, all ranks of a group are
as slow as the slowest of it. Their times then rise and fall together from step to step, as do those of ranks
that stall together. The times of ranks that are slow for separate reasons do not. Times vary together in
every step if ranks wait for each other; if a common cause delays them now and then, such as the storage of
their host, only then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from timing_logger.analysis.rows.arrays import Floats, Ints, known
from timing_logger.analysis.rows.files import NO_ROLE
from timing_logger.analysis.step_times import peers
from timing_logger.analysis.step_times.peers import column_medians, correlations, peer_ratios, variances
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.who.candidates import Candidate, gates_of, operation_of
from timing_logger.analysis.verdict.who.slow_steps import SlowSteps, slow_together
from timing_logger.results.facts import BondKind, Gate
from timing_logger.results.policy import Policy

_MOST_OTHERS = 8  # a few ranks show how far two apart vary, however many there are


@dataclass(frozen=True)
class Bond:
    """What makes several ranks slow in the same steps by the same amount.

    Attributes:
        kind: as that of a verdict; "" for a rank alone.
        n_hosts: the number of hosts on which they run; 0 if that is not known.
        host: the host on which all of them run and others do not; "" if there is none.
        host_ranks: the number of ranks of that host.
        together: whether their times vary together also where they are not slow, as those of ranks that wait
            for each other do; None if that is not known.
    """

    kind: BondKind = ""
    n_hosts: int = 0
    host: str = ""
    host_ranks: int = 0
    together: bool | None = None


@dataclass(frozen=True, eq=False)
class Party:
    """A candidate, or several that count as one.

    Attributes:
        candidates: one for each rank, the costliest first.
        bond: what makes them slow as one.
    """

    candidates: tuple[Candidate, ...]
    bond: Bond = Bond()

    @property
    def first(self) -> Candidate:
        """The costliest candidate, which the others are in lockstep with."""
        return self.candidates[0]

    @property
    def is_alone(self) -> bool:
        """Whether the party has only one candidate."""
        return len(self.candidates) == 1

    @property
    def may_be_named(self) -> bool:
        """Whether all its ranks are slow themselves: it is one rank, or its host makes them slow."""
        return self.is_alone or self.bond.kind in ("host", "part of host")

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns of the party's ranks, ascending."""
        return tuple(sorted(candidate.column for candidate in self.candidates))


def parties(case: Case, candidates: Sequence[Candidate]) -> list[Party]:
    """Group each candidate with the ranks that it is in lockstep with.

    Args:
        case: the run to be judged.
        candidates: the candidates, the costliest first.

    Returns:
        The parties, in the order of their first candidates.
    """
    parted: list[Party] = []
    taken: set[int] = set()  # positions of candidates that are in the party of another
    ratios, least = _all_ratios(case), case.policy.min_shared_steps_share
    for at, candidate in enumerate(candidates):
        if at in taken:
            continue
        partners = _partners(ratios, candidate, case.policy) if candidate.may_be_suspected else []
        later = range(at + 1, len(candidates)) if partners else ()
        others = [i for i in later if candidates[i].column in partners]
        taken |= {i for i in others if shared_steps(candidate, candidates[i]) >= least}
        parted.append(Party((candidate, *(replace(candidate, column=column) for column in partners))))
    return parted


def shared_steps(candidate: Candidate, other: Candidate) -> float:
    """Return which part of the slow steps of ``other`` are slow steps of the candidate."""
    return len(np.intersect1d(candidate.slow.steps, other.slow.steps)) / len(other.slow.steps)


def _partners(ratios: Floats, candidate: Candidate, policy: Policy) -> list[int]:
    """Return the columns of ranks of any role that are as slow as the candidate, and vary with it.

    Args:
        ratios: as :func:`_all_ratios` returns them.
        candidate: whose partners are looked for.
        policy: the numbers that decide.
    """
    alike = _as_slow(ratios, candidate, policy)
    at = int(np.searchsorted(alike, candidate.column))
    together = (
        correlations(ratios[:, alike], at, policy.min_lockstep_steps) >= policy.min_lockstep_correlation
    )
    return [int(column) for column in alike[together] if column != candidate.column]


def as_slow(case: Case, candidate: Candidate) -> Ints:
    """Return the columns of a candidate and the ranks of any role that are as slow where it is slow."""
    return _as_slow(_all_ratios(case), candidate, case.policy)


def _as_slow(ratios: Floats, candidate: Candidate, policy: Policy) -> Ints:
    levels = column_medians(ratios[candidate.slow.steps])
    own = levels[candidate.column]
    return np.flatnonzero(np.minimum(levels, own) >= policy.min_level_ratio * np.maximum(levels, own))


def _all_ratios(case: Case) -> Floats:
    """Return log(time / median of the rank's own peers), steps x ranks."""
    ratios = np.full(case.times.self_ms.shape, np.nan)
    for columns in case.by_role.values():
        ratios[:, columns] = peer_ratios(case.times.self_ms[:, columns])
    return ratios


# -- what makes them act as one -------------------------------------------------------------------------


def bond_of(case: Case, party: Party) -> Bond:
    """Return what makes the ranks of a party slow as one, as far as the rows and the hosts tell."""
    if party.is_alone:
        return Bond()
    together, columns = vary_together(case, party), party.columns
    mine = {host: len(its) for host, its in case.by_host.items() if np.isin(its, columns).any()}
    host, of_host = next(iter(mine.items())) if len(mine) == 1 < len(case.by_host) else ("", 0)
    bond = Bond("something", len(mine), host, of_host, together)
    if together is None:
        return bond
    if mine and together:
        return replace(bond, kind="waiting")
    enough = len(columns) >= case.policy.min_host_share * of_host
    if not (host and enough and np.array_equal(as_slow(case, party.first), columns)):
        return bond
    return replace(bond, kind="host" if len(columns) == of_host else "part of host")


def vary_together(case: Case, party: Party) -> bool | None:
    """Tell whether the times of a party's ranks vary together also where these are not slow; None if unknown.

    Looked at is the operation in which they are slow; all of its steps if they always are. If ranks of the
    other hosts vary by themselves, it is not how the job works that ties these, and their times may vary
    together because what delays them all does so more or less in every step.
    """
    times, policy, columns = case.times, case.policy, np.array(party.columns)
    operation, _ = operation_of(times, party.first)
    operation_ms = times.operation_ms[times.operations.index(operation)]
    logs = np.log(np.where(operation_ms > 0, operation_ms, np.nan))
    found = _likeness(case, np.delete(logs, party.first.slow.steps, axis=0), columns)
    found = _likeness(case, logs, columns) if np.isnan(found) else found
    if found < policy.max_apart_correlation:
        return False
    elsewhere = known(np.array([_likeness(case, logs, its) for its in _other_hosts(case, columns)]))
    is_of_job = not len(elsewhere) or np.median(elsewhere) >= policy.max_apart_correlation
    return True if found >= policy.min_lockstep_correlation and is_of_job else None


def _other_hosts(case: Case, columns: Ints) -> Iterator[Ints]:
    for its in case.by_host.values():
        if len(its) > 1 and not np.isin(its, columns).any():
            yield its


def _likeness(case: Case, logs: Floats, columns: Ints) -> float:
    """Return by how much less two of these ranks differ from step to step than one of them and another rank.

    What all ranks have in common, such as long steps, does not count. It is 1 for ranks that are always
    equal, and about 0 for those that have nothing in common; NaN if too little is known.

    Args:
        case: the run to be judged.
        logs: the logarithm of the times, steps x ranks.
        columns: the ranks.
    """
    others = _others(case, columns)
    within = _spread(case, logs, columns, np.roll(columns, 1))
    across = _spread(case, logs, np.repeat(columns, len(others)), np.tile(others, len(columns)))
    return 1 - within / across if across > 0 else float("nan")


def _others(case: Case, columns: Ints) -> Ints:
    """Return some ranks of the same roles that are none of these."""
    alike = [its for its in case.by_role.values() if np.isin(its, columns).any()]
    others = np.setdiff1d(np.concatenate(alike), columns)
    return others[np.linspace(0, len(others) - 1, min(len(others), _MOST_OTHERS)).astype(np.int64)]


def _spread(case: Case, logs: Floats, ones: Ints, others: Ints) -> float:
    """Return the variance of how two ranks differ, by its changes between steps; the median of the pairs."""
    apart = np.diff(logs[:, ones] - logs[:, others], axis=0)
    enough = (~np.isnan(apart)).sum(axis=0) >= case.policy.min_lockstep_steps
    found = variances(apart[:, enough])
    return float(np.median(found)) if len(found) else float("nan")


def may_be_its_work(case: Case, party: Party) -> bool:
    """Tell whether a slow host may as well have more to do: it has half of the ranks, and always is slow.

    Where roles are stated, ranks of one role do equal work.
    """
    is_half = len(party.columns) >= case.policy.max_slow_share_of_role * len(case.times.ranks)
    is_always_slow = party.first.slow.kind == "persistent"
    return party.bond.kind == "host" and is_half and is_always_slow and set(case.by_role) == {NO_ROLE}


def slow_of_hosts(ratios: Floats, policy: Policy) -> list[SlowSteps]:
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


@dataclass(frozen=True, eq=False)
class Hosts:
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
    def of(cls, case: Case) -> Hosts | None:
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
