"""Ranks that are slow as one, and what makes them so, as far as the rows can tell."""

from __future__ import annotations

from dataclasses import dataclass

from timing_logger.analysis.stragglers.facts.of_ranks import BondKind
from timing_logger.analysis.stragglers.slow.candidate import Candidate


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
