"""Facts on ranks: how slow, in what, who waits for them, what ties them; and by what they were compared.

Facts are dataclasses and no named tuples, so that two kinds with the same values are not equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from timing_logger.results.plain import StepRange

BondKind = Literal["", "host", "part of host", "waiting", "something"]

Slowing = Literal["together", "little by little"]
"""How all ranks became slower: at once, or in a growth that went on."""


class Gate(NamedTuple):
    """A condition that a verdict depends on.

    Attributes:
        name: what was measured.
        value: the measured figure; NaN if it is unknown.
        bound: the bound that the figure is compared with.
        passed: whether the condition holds.
    """

    name: str
    value: float
    bound: float
    passed: bool

    @classmethod
    def at_least(cls, name: str, value: float, bound: float) -> Gate:
        """Return the condition that a figure is known and no less than its bound."""
        return cls(name, float(value), float(bound), bool(value >= bound))

    @classmethod
    def below(cls, name: str, value: float, bound: float) -> Gate:
        """Return the condition that a figure is known and less than its bound."""
        return cls(name, float(value), float(bound), bool(value < bound))


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
    """Where ranks that act as one are not slow, an operation varies on each of them by itself."""

    operation: str


@dataclass(frozen=True)
class HostOrWork:
    """Half of the ranks were slow throughout, so their work may be larger, or their host slow."""


@dataclass(frozen=True)
class SlowOperation:
    """The operation in which a slow rank spent most beyond its peers.

    Attributes:
        operation: the operation.
        rank: the rank.
        excess_share: the fraction of its time beyond its peers that the operation holds; NaN if unknown.
    """

    operation: str
    rank: int
    excess_share: float


@dataclass(frozen=True)
class WorkOfRank:
    """How much a slow rank has to do, by what its rows state as work.

    Attributes:
        rank: the rank.
        times_as_much: its work divided by that of its peers, in the operation in which it loses most.
        explained_share: the fraction of its time beyond its peers that is due to that, in [0, 1].
        times_as_long: its time divided by that of its peers, if all had the same to do.
    """

    rank: int
    times_as_much: float
    explained_share: float
    times_as_long: float


@dataclass(frozen=True)
class MoreRows:
    """A slow rank did an operation more often than its peers.

    Attributes:
        rank: the rank.
        operation: the operation.
        times_as_many: the number of its rows divided by that of its peers, by step.
        explained_share: the fraction of its time beyond its peers that is due to that, in [0, 1], if each
            time takes as long.
    """

    rank: int
    operation: str
    times_as_many: float
    explained_share: float


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
    """How likely the suspect is the costliest.

    Attributes:
        likelihood: in other steps like those of the run, in [0, 1].
    """

    likelihood: float


# -- all ranks, or a role ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class SlowRole:
    """All ranks of a role are slower than the other roles.

    Attributes:
        role: the role; "" if it has no name.
        ranks: its ranks.
        times_as_long: the time of its typical rank divided by the median of the other roles.
    """

    role: str
    ranks: tuple[int, ...]
    times_as_long: float


@dataclass(frozen=True)
class AllSlower:
    """Most ranks became slower than in their own best past.

    Attributes:
        ranks_share: the fraction of the ranks that did.
        times_as_long: the time of the typical rank divided by that of its best past.
        how: how they became slower.
    """

    ranks_share: float
    times_as_long: float
    how: Slowing


@dataclass(frozen=True)
class UnevenWork:
    """Ranks of a role have uneven work.

    Attributes:
        run_share: by which fraction of it the run would be shorter, if all had the same to do in each step.
    """

    run_share: float


@dataclass(frozen=True)
class Pauses:
    """Ranks stop for what is not their work, such as garbage collections, after their first step.

    Attributes:
        operation: what they stop for, one of ``PAUSES``.
        run_share: by which fraction of it the run would be shorter without these pauses.
    """

    operation: str
    run_share: float


@dataclass(frozen=True)
class LostToSlowest:
    """Time is lost to the slowest rank of each step.

    Attributes:
        lost_share: the fraction of the time that is lost.
        ranks: those to which most of it is; empty if to no one in particular.
    """

    lost_share: float
    ranks: tuple[int, ...]


# -- what was compared -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SelfTimeBetween:
    """Self time is the time between communication: rows of own work are missing, or cover too little."""


@dataclass(frozen=True)
class SelfTimeOfRows:
    """Self time is that of the rows of own work.

    Attributes:
        operations: the operations of these rows; empty if there are none.
    """

    operations: tuple[str, ...]


@dataclass(frozen=True)
class SelfTimeUnknown:
    """Nothing is known of the self time of these ranks."""

    ranks: tuple[int, ...]


@dataclass(frozen=True)
class AloneInRole:
    """Each of these roles has only one rank, which has no peers."""

    roles: tuple[str, ...]


@dataclass(frozen=True)
class TwoRanks:
    """Only two ranks are compared: by their ratio."""


@dataclass(frozen=True)
class StepsCounted:
    """No iteration is recorded: rounds of the collectives that repeat are counted as steps."""


@dataclass(frozen=True)
class EpochsCounted:
    """Iterations fall back and no epoch tells them apart: each time begins an epoch."""


@dataclass(frozen=True)
class FewSteps:
    """The judgement rests on few steps.

    Attributes:
        recorded_steps: how many are recorded.
        nobody_is_slow: whether no rank was found to be slow: then one that is slow by little was not seen.
    """

    recorded_steps: int
    nobody_is_slow: bool


RankFact = (
    SlowRank | SlowHost | NotNamed | ExplainedWithout | ActAsOne | VaryAlone | HostOrWork | SlowOperation
    | MostWaitedFor | PassingOn | Costliest | SlowRole | AllSlower | LostToSlowest | SelfTimeBetween
    | WorkOfRank | MoreRows | UnevenWork | Pauses | SelfTimeOfRows | SelfTimeUnknown | AloneInRole
    | TwoRanks | StepsCounted | EpochsCounted | FewSteps
)  # fmt: skip
"""A fact on ranks."""
