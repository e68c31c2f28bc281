"""A condition that a verdict depends on."""

from __future__ import annotations

from typing import NamedTuple


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
