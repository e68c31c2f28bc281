"""The names of the dataloaders that a profiler wraps, and which of them are for validation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from timing_logger.errors import ConfigurationError

UNKNOWN_LOADER = "unknown"
"""The name used if the loader cannot be determined, so that its times are in no other loader's mean."""


class LoaderNames:
    """The registry of loader names: each name belongs to one loader.

    Args:
        given: names for training loaders wrapped without one, in the order of wrapping; None for "0", "1",
            ...
    """

    def __init__(self, given: Sequence[str] | None) -> None:
        self._given = given
        self._training: dict[str, bool] = {}

    def add(self, name: str | None, *, training: bool) -> str:
        """Register one more loader, and return its name: ``name``, or the next free one.

        Raises:
            ConfigurationError: the name is taken or invalid, or there is none left.
        """
        if name is None:
            name = next((free for free in self._unnamed(training) if free not in self._training), None)
            if name is None:
                raise ConfigurationError(
                    f"dataloader_names={list(self._given or ())} has no name left for one more loader: "
                    "add one, or give wrap() its name."
                )
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"name must be a text that is not empty, and is {name!r}.")
        if name in self._training:
            raise ConfigurationError(
                f"name={name!r} belongs to a loader that was wrapped before. Wrap each loader once and "
                "iterate over it as often as needed; give another one another name."
            )
        self._training[name] = training
        return name

    def is_for_validation(self, name: str) -> bool:
        """Tell whether the loader ``name`` was wrapped for validation."""
        return not self._training.get(name, True)

    def or_only(self, name: str | None, *, training: bool) -> str:
        """Return ``name``; for None, the only loader that is possible, or else :data:`UNKNOWN_LOADER`."""
        if name is None:
            possible = [each for each, trains in self._training.items() if trains or not training]
            if len(possible) == 1:
                return possible[0]
        return name if isinstance(name, str) else UNKNOWN_LOADER

    def _unnamed(self, training: bool) -> Iterator[str]:
        if not training:
            return (f"val_{number}" for number in itertools.count())
        return map(str, itertools.count()) if self._given is None else iter(self._given)
