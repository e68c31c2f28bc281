"""Follow sources that grow, with one thing done between two looks: no clock decides what is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from timing_logger.importing import Imported, Until

Act = Callable[[], object]


class Followed(NamedTuple):
    """What an import of what grows has made, and what it said meanwhile."""

    made: Imported
    said: list[str]


def followed(
    follow: Callable[[Until, Callable[[str], None]], Imported], *acts: Act, stops: bool = False
) -> Followed:
    """Follow, do an act after each look, and look once more.

    Args:
        follow: follows sources until it is told to end, and says things.
        acts: what is done.
        stops: whether the import is then stopped; else it ends since nothing more is added.
    """
    waiting: list[Act] = [*acts, lambda: None]
    said: list[str] = []

    class BetweenLooks(Until):
        @property
        def idle_s(self) -> float | None:
            return None if waiting else 1e-9

        @property
        def is_now(self) -> bool:
            return stops and not waiting

        def checked(self) -> Until:
            return self

        def wait(self) -> None:
            if waiting:
                waiting.pop(0)()

    return Followed(follow(BetweenLooks(), said.append), said)
