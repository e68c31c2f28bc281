"""What a logger asks of a call that it times: the group that counts it, and the handle to wait for."""

from __future__ import annotations

from typing import Protocol


class NumberedGroup(Protocol):
    """A group of ranks that counts its operations.

    Attributes:
        collectives: how many were begun.
    """

    name: str
    size: int
    collectives: int

    def next_collective(self) -> int: ...

    def take_back(self) -> None:
        """The latest did not begin: its call was refused."""


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
