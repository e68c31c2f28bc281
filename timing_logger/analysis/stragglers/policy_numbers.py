"""The numbers of a policy: each has a default, a range and a reason, and is checked when a policy is made."""

from __future__ import annotations

import math
from dataclasses import Field, field, fields
from numbers import Integral, Real
from typing import Any, NamedTuple

from timing_logger.errors import ConfigurationError


class Range(NamedTuple):
    """The values that a number may have.

    Attributes:
        words: the values in words.
        least, most: the bounds.
        whole: whether only whole numbers are in the range.
        closed: whether the bounds are in it.
    """

    words: str
    least: float
    most: float
    whole: bool = False
    closed: bool = True

    def has(self, value: object) -> bool:
        """Tell whether a value is a number of this range."""
        if isinstance(value, bool) or not isinstance(value, Integral if self.whole else Real):
            return False
        number = float(value)
        return self.least <= number <= self.most if self.closed else self.least < number < self.most


_SHARE = Range("a number from 0 to 1", 0.0, 1.0)
_BETWEEN = Range("a number between 0 and 1, both excluded", 0.0, 1.0, closed=False)
_POSITIVE = Range("a finite number above 0", 0.0, math.inf, closed=False)
_FACTOR = Range("a finite number above 1", 1.0, math.inf, closed=False)
_COUNT = Range("a whole number from 1 on", 1, math.inf, whole=True)


def share(default: float, reason: str) -> Any:
    """Make a field for a part of a whole, in [0, 1]."""
    return _number(default, reason, _SHARE)


def between(default: float, reason: str) -> Any:
    """Make a field for a score, a difference of scores or a ratio, in (0, 1)."""
    return _number(default, reason, _BETWEEN)


def positive(default: float, reason: str) -> Any:
    """Make a field for a number above 0."""
    return _number(default, reason, _POSITIVE)


def factor(default: float, reason: str) -> Any:
    """Make a field for how many times something is another, above 1."""
    return _number(default, reason, _FACTOR)


def count(default: int, reason: str) -> Any:
    """Make a field for a number of steps, ranks or the like, from 1 on."""
    return _number(default, reason, _COUNT)


def _number(default: float, reason: str, its_range: Range) -> Any:
    return field(default=default, metadata={"range": its_range, "reason": reason})


class Number(NamedTuple):
    """A number of a policy.

    Attributes:
        name: the name of its field.
        value: what it is.
        standard: what it is in the standard policy.
        reason: why it is what it is there.
    """

    name: str
    value: float
    standard: float
    reason: str

    @property
    def differs(self) -> bool:
        """Whether it is another than in the standard policy."""
        return self.value != self.standard


def numbers_of(policy: Any) -> list[Number]:
    """Return the numbers of a policy, in their order."""
    return [_number_of(policy, one) for one in fields(policy)]


def _number_of(policy: Any, one: Field[Any]) -> Number:
    standard: Any = one.default
    return Number(one.name, getattr(policy, one.name), standard, one.metadata["reason"])


def check_numbers(policy: Any) -> None:
    """Check that every number of a policy is in its range.

    Raises:
        ConfigurationError: one is not.
    """
    for one in fields(policy):
        _check(one, getattr(policy, one.name))


def _check(one: Field[Any], value: object) -> None:
    allowed: Range = one.metadata["range"]
    if not allowed.has(value):
        raise ConfigurationError(
            f"{one.name}: {value!r} is not {allowed.words}. Leave it out for the default, {one.default:g}."
        )
