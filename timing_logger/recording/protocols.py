"""What a logger asks of a call that it times: the group that counts it, and the handle to wait for."""

from __future__ import annotations

from typing import Protocol


class Counts(Protocol):
    """How far a group of ranks has come.

    Attributes:
        collectives: how many were begun.
    """

    size: int
    collectives: int


class NumberedGroup(Protocol):
    """A group of ranks that counts its operations."""

    name: str
    size: int

    def next_collective(self) -> int: ...

    def take_back(self, error: BaseException) -> bool:
        """The call of the latest raised ``error``: whether that one did not begin, and no longer counts."""


class Waitable(Protocol):
    """What a call that goes on after its return gives to its caller."""

    def wait(self) -> object: ...

    def is_completed(self) -> bool: ...


def has_ended(begun: Waitable) -> bool:
    """Asked when a wait for it has failed, whose error the caller shall see, and no other one."""
    try:
        return begun.is_completed()
    except Exception:
        return False
