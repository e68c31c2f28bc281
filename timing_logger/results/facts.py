"""What a verdict rests on, in values: facts on ranks, on transfers, and for which a run is not judged.

There is a class for each kind of fact: a dataclass and no named tuple, so that two kinds with the same values
are not equal. ``timing_logger.words`` has their sentences.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from timing_logger.results.plain import StepRange, plain_fields
from timing_logger.results.run_end import RunState

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


# -- how the run ended, and its transfers --------------------------------------------------------------


@dataclass(frozen=True)
class EndedBadly:
    """The run hung, failed or was cut off.

    Attributes:
        state: as that of the run's end.
        warning: ``RunEnd.warning``.
    """

    state: RunState
    warning: str


Than = Literal["before", "others", "usual"]
"""What a slow link is compared with: earlier steps, others of its kind, or its own other steps."""


class Transfer(NamedTuple):
    """A transfer that recurs: messages from one rank to another, or a collective of a group.

    Attributes:
        operation: the operation; ``SEND`` for messages.
        group: the name of the group; "" if it has none.
        sender, receiver: the ranks of messages; None for a collective.
        up_to_bytes: the least power of two that is no less than the bytes of a message; None if unknown.
    """

    operation: str
    group: str
    sender: int | None
    receiver: int | None
    up_to_bytes: int | None


@dataclass(frozen=True)
class SlowTransfers:
    """The costliest of the slow transfers, and how slow it is.

    Attributes:
        transfer: the transfer.
        took_ms: how long one typically takes in its slow steps, without waiting.
        usual_ms: how long it should take, by what it is compared with.
        than: what it is compared with.
        slow_steps: in how many steps it is slow.
        recorded_steps: in how many steps its time is known.
    """

    transfer: Transfer
    took_ms: float
    usual_ms: float
    than: Than
    slow_steps: int
    recorded_steps: int


@dataclass(frozen=True)
class MostlyTransfers:
    """Ranks are blocked in transfers for most of the run, and nothing says how long these should take.

    Attributes:
        run_share: the fraction of the run for which they are, without waiting.
        transfer: the one that takes most of that.
    """

    run_share: float
    transfer: Transfer


@dataclass(frozen=True)
class OnlyInAllSlow:
    """These ranks take part in all slow transfers, and in no others of their kind."""

    ranks: tuple[int, ...]


@dataclass(frozen=True)
class OnHost:
    """The ranks that were just named are those of a host."""

    host: str


@dataclass(frozen=True)
class EveryRankInSlow:
    """All ranks take part in slow transfers."""


@dataclass(frozen=True)
class OthersInAllSlow:
    """These ranks take part in all slow transfers, but also in others of their kind."""

    ranks: tuple[int, ...]


@dataclass(frozen=True)
class NobodyInAllSlow:
    """No rank takes part in all slow transfers."""


# -- not judged -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoRows:
    """There are no rows."""


@dataclass(frozen=True)
class OneRank:
    """Only one rank is recorded."""


@dataclass(frozen=True)
class EachAlone:
    """Every rank is alone in its role."""


@dataclass(frozen=True)
class NoSelfTime:
    """Of no step it is known how long a rank worked."""


@dataclass(frozen=True)
class FewCompared:
    """Too few steps are known of two ranks of one role.

    Attributes:
        least_steps: how many it takes.
    """

    least_steps: int


@dataclass(frozen=True)
class DeviceClockHides:
    """Own work is on the device's clock, which goes on while a stream waits for other ranks.

    Attributes:
        typical_wait_ms: how long the rank that waits most does so in a typical step.
    """

    typical_wait_ms: float


@dataclass(frozen=True)
class RolesMayWait:
    """Ranks of several roles may wait for each other unseen, and too little of their own work is logged."""


@dataclass(frozen=True)
class OneWaitedFor:
    """The others waited visibly for one rank, which is slow by too little to be named.

    Attributes:
        rank: the rank.
        waiting_share: the fraction of all waiting that was for it.
        run_share: the fraction of the run by which it would be shorter if the rank were like its peers.
    """

    rank: int
    waiting_share: float
    run_share: float


@dataclass(frozen=True)
class LeavesLate:
    """The others waited visibly for one rank, which leaves collectives later than they do.

    Attributes:
        rank: the rank.
        late_ms: by how much longer than its peers it is, at least, in collectives after the last has come, on
            average over the steps.
        run_share: the fraction of the run that others waited for it, at least.
    """

    rank: int
    late_ms: float
    run_share: float


class CallCount(NamedTuple):
    """How often a function was called."""

    name: str
    calls: int


@dataclass(frozen=True)
class UntimedCalls:
    """Ranks may have waited for each other in calls without rows.

    Attributes:
        counts: the functions, the one that was called most first.
    """

    counts: tuple[CallCount, ...]


@dataclass(frozen=True)
class CommunicationNotTold:
    """The rows were imported from what does not tell in which operations ranks wait for each other.

    Attributes:
        kind: the kind of the import.
    """

    kind: str


@dataclass(frozen=True)
class RanksLacking:
    """Rows of ranks are missing.

    Attributes:
        ranks: these ranks, ascending.
        how: what is known of them, in words.
    """

    ranks: tuple[int, ...]
    how: str


@dataclass(frozen=True)
class DifferentRuns:
    """The files look like those of different runs.

    Attributes:
        how: what shows it, in words.
    """

    how: str


@dataclass(frozen=True)
class UnlikeLinks:
    """Links that do the same differ, and nothing says which of them is usual.

    Attributes:
        slow, quick: the transfers of both kinds.
        times_as_long: the time of a slow one divided by that of a quick one.
        run_share: the fraction of the run that it costs.
    """

    slow: tuple[Transfer, ...]
    quick: tuple[Transfer, ...]
    times_as_long: float
    run_share: float


Reason = (
    NoRows | OneRank | EachAlone | NoSelfTime | FewCompared | DeviceClockHides | RolesMayWait
    | OneWaitedFor | LeavesLate | UntimedCalls | CommunicationNotTold | RanksLacking
    | DifferentRuns | UnlikeLinks
)  # fmt: skip
"""A fact for which a run is not judged."""

Fact = (
    SlowRank | SlowHost | NotNamed | ExplainedWithout | ActAsOne | VaryAlone | HostOrWork | SlowOperation
    | MostWaitedFor | PassingOn | Costliest | SlowRole | AllSlower | LostToSlowest | SelfTimeBetween
    | WorkOfRank | MoreRows | UnevenWork | Pauses | SelfTimeOfRows | SelfTimeUnknown | AloneInRole
    | TwoRanks | StepsCounted | EpochsCounted | FewSteps | EndedBadly | SlowTransfers | MostlyTransfers
    | OnlyInAllSlow | OnHost | EveryRankInSlow | OthersInAllSlow | NobodyInAllSlow | Reason
)  # fmt: skip
"""Anything that a verdict rests on."""


def code_of(kind: type[Fact]) -> str:
    """Return the code of a kind of fact in JSON: ``slow-rank`` for ``SlowRank``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


def plain_fact(fact: Fact) -> dict[str, object]:
    """Return a fact as plain values that JSON can hold: its code as ``fact``, and its values by name."""
    return {"fact": code_of(type(fact)), **plain_fields(fact)}
