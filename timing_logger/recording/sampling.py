"""The policy that selects which iterations are recorded, and on which ranks, consistently across ranks."""

from __future__ import annotations

import operator
from collections.abc import Collection
from dataclasses import dataclass
from typing import SupportsIndex

from timing_logger.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPolicy:
    """Selects iterations ``start_step``, ``start_step + n``, ... below ``end_step``.

    The choice depends on the iteration alone, so ranks that count iterations alike leave out the same ones.
    Records outside of any iteration (before the first ``set_current_iteration``) are kept.

    Attributes:
        start_step: first iteration recorded.
        end_step: first iteration no longer recorded; None for no end.
        record_every_n_steps: distance between recorded iterations, in iterations.
        ranks: ranks that record at all; None for every rank.

    Raises:
        ConfigurationError: a value is not an integer in its range, or the range is empty.
    """

    start_step: int = 0
    end_step: int | None = None
    record_every_n_steps: int = 1
    ranks: Collection[int] | None = None

    def __post_init__(self) -> None:
        check_integer("start_step", self.start_step, minimum=0)
        check_integer("record_every_n_steps", self.record_every_n_steps, minimum=1)
        if self.end_step is not None:
            check_integer("end_step", self.end_step, minimum=0)
            if self.end_step <= self.start_step:
                raise ConfigurationError(
                    f"end_step={self.end_step} is not above start_step={self.start_step}: no iteration "
                    "would be recorded. Raise end_step, or switch recording off to record nothing."
                )
        if self.ranks is not None:
            for rank in _checked_ranks(self.ranks):
                check_integer("ranks", rank, minimum=0)

    @property
    def selective(self) -> bool:
        """Whether any iteration is left out on a rank that records."""
        return self.start_step > 0 or self.end_step is not None or self.record_every_n_steps > 1

    def records(self, iteration: SupportsIndex) -> bool:
        """Tell whether ``iteration`` is recorded. Never raises: a value that is no integer is recorded."""
        if type(iteration) is not int:
            try:
                iteration = operator.index(iteration)
            except Exception:
                return True
        past_start = iteration - self.start_step
        if past_start < 0 or (self.end_step is not None and iteration >= self.end_step):
            return False
        return bool(past_start % self.record_every_n_steps == 0)

    def records_rank(self, rank: int) -> bool:
        """Tell whether ``rank`` records at all."""
        return self.ranks is None or rank in self.ranks


def check_integer(name: str, value: SupportsIndex, *, minimum: int, maximum: int | None = None) -> int:
    """Return ``value`` as an int between ``minimum`` and ``maximum``; bools and floats are refused.

    Raises:
        ConfigurationError: the value is no integer or out of range; the message calls it ``name``.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        number = minimum - 1
    if number < minimum:
        raise ConfigurationError(f"{name} must be an integer >= {minimum}, and is {value!r}.")
    if maximum is not None and number > maximum:
        raise ConfigurationError(f"{name} must be an integer <= {maximum}, and is {value!r}.")
    return number


def _checked_ranks(ranks: Collection[int]) -> Collection[int]:
    if isinstance(ranks, (str, bytes)) or not (hasattr(ranks, "__iter__") and hasattr(ranks, "__len__")):
        raise ConfigurationError(f"ranks must be a collection of rank numbers, and is {ranks!r}.")
    if len(ranks) == 0:
        raise ConfigurationError(
            "ranks is empty: no rank would record. Name some, or switch recording off to record nothing."
        )
    return ranks
