"""Facts on transfers: which are slow, and which ranks they have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

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


OfTransfers = (
    SlowTransfers | MostlyTransfers | OnlyInAllSlow | OnHost | EveryRankInSlow | OthersInAllSlow
    | NobodyInAllSlow
)  # fmt: skip
"""A fact on transfers."""
