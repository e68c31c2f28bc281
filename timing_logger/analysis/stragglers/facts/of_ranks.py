"""Facts on slow ranks: how slow they are, in what, who waited for them, and what makes them slow as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from timing_logger.analysis.steps import StepRange
from timing_logger.analysis.stragglers.gate import Gate

BondKind = Literal["", "host", "part of host", "waiting", "something"]


class Slowness(NamedTuple):
    """How slow a rank is in its slow steps.

    Attributes:
        times_as_long: its time divided by the median of those that it is compared with.
        window: ``persistent``, ``ongoing``, ``bounded`` or ``intermittent``.
        when: the range of the slow steps.
        slow_steps: the number of slow steps.
    """

    times_as_long: float
    window: str
    when: StepRange
    slow_steps: int


@dataclass(frozen=True)
class SlowRank:
    """A rank is slower than its peers."""

    rank: int
    slowness: Slowness


@dataclass(frozen=True)
class SlowHost:
    """The typical rank of a host is slower than those of the other hosts."""

    host: str
    slowness: Slowness


@dataclass(frozen=True)
class NotNamed:
    """A rank is slower than its peers, but not named for that.

    Attributes:
        rank: the rank.
        slowness: how slow it is.
        failed: the conditions that it did not meet.
    """

    rank: int
    slowness: Slowness
    failed: tuple[Gate, ...]


@dataclass(frozen=True)
class ExplainedWithout:
    """A rank is slower than its peers, but others explain enough of the lost time.

    Attributes:
        rank: the rank.
        slowness: how slow it is.
        explained_share: the fraction of the lost time that those explain.
    """

    rank: int
    slowness: Slowness
    explained_share: float


@dataclass(frozen=True)
class ActAsOne:
    """Ranks are slow in the same steps by the same amount.

    Attributes:
        ranks: these ranks, ascending.
        bond: what makes them slow as one, as that of a verdict.
        n_hosts: the number of hosts on which they run; 0 if that is not known.
        host: the host on which all of them run and others do not; "" if there is none.
        host_ranks: the number of ranks of that host.
        vary_together: whether their times vary together also where they are not slow; None if not known.
    """

    ranks: tuple[int, ...]
    bond: BondKind
    n_hosts: int
    host: str
    host_ranks: int
    vary_together: bool | None


@dataclass(frozen=True)
class VaryAlone:
    """Where ranks that act as one are not slow, a phase varies on each of them by itself."""

    phase: str


@dataclass(frozen=True)
class HostOrWork:
    """Half of the ranks were slow throughout, so their work may be larger, or their host slow."""


@dataclass(frozen=True)
class SlowPhase:
    """The phase in which a slow rank spent most beyond its peers.

    Attributes:
        phase: the phase.
        rank: the rank.
        excess_share: the fraction of its time beyond its peers that the phase holds; NaN if unknown.
    """

    phase: str
    rank: int
    excess_share: float


@dataclass(frozen=True)
class MostWaitedFor:
    """In its slow steps, ranks waited for this one more than for any other.

    Attributes:
        rank: the rank.
        waiting_share: the fraction of the waiting in these steps that was for it.
    """

    rank: int
    waiting_share: float


@dataclass(frozen=True)
class PassingOn:
    """Ranks are waited for without being slow: they pass on the delay of another."""

    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Costliest:
    """How often the suspect was the costliest.

    Attributes:
        likelihood: the fraction of the resampled runs in which it was.
        resampled_runs: how many runs were drawn from the steps of this one.
    """

    likelihood: float
    resampled_runs: int


OfRanks = (
    SlowRank | SlowHost | NotNamed | ExplainedWithout | ActAsOne | VaryAlone | HostOrWork | SlowPhase
    | MostWaitedFor | PassingOn | Costliest
)  # fmt: skip
"""A fact on slow ranks."""
