"""Facts on the rows: where the times that are compared come from, and what limits the comparison."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SelfTimeBetween:
    """Self time is the time between communication: rows of own work are missing, or cover too little."""


@dataclass(frozen=True)
class SelfTimeOfRows:
    """Self time is that of the rows of own work.

    Attributes:
        phases: the operations of these rows; empty if there are none.
    """

    phases: tuple[str, ...]


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


OfRows = (
    SelfTimeBetween | SelfTimeOfRows | SelfTimeUnknown | AloneInRole | TwoRanks | StepsCounted
    | EpochsCounted | FewSteps
)  # fmt: skip
"""A fact on the rows."""
