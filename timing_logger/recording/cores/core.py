"""What a core is to code that holds for each: a module with these classes."""

from __future__ import annotations

from typing import Protocol, TypeVar

from timing_logger.recording.cores import channel
from timing_logger.recording.cores.python import background, calls

P = TypeVar("P")


class Core(Protocol):
    """The module of a core: the classes of which recorders and loggers make objects themselves."""

    @property
    def Caller(self) -> type[calls.Caller]:
        """Of threads."""

    @property
    def Channel(self) -> type[channel.Channel]:
        """Of records that wait."""

    @property
    def Span(self) -> type[calls.Span]:
        """Of blocks."""

    @property
    def Wait(self) -> type[background.Wait]:
        """Of waits for operations in the background."""


_MADE: dict[tuple[type, type], type] = {}


def over(part: type[P], base: type) -> type[P]:
    """Return a subclass of a core's class ``base`` that has the methods of ``part``, which hold for any.

    ``part`` has no slots, as a class cannot have two bases with slots: ``OWN`` names those of the subclass.
    """
    if (part, base) not in _MADE:
        own: tuple[str, ...] = part.OWN  # type: ignore[attr-defined]
        _MADE[part, base] = type(part.__name__, (part, base), {"__slots__": own, "__doc__": part.__doc__})
    return _MADE[part, base]
