"""Reads the small files in which the kernel states its counters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Roots:
    """Where the kernel's files are, so that tests can set others in their place."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")


class CounterSource(Protocol):
    """What states some of the counters."""

    @property
    def counters(self) -> Sequence[str]:
        """The names of those that it can state."""

    @property
    def why(self) -> str:
        """Why it does not state those that it lacks; "" if the files that it names tell."""

    def paths(self) -> Sequence[str]:
        """Return the files whose content is needed now."""

    def values(self, texts: Sequence[bytes]) -> Mapping[str, float]:
        """Return the counters that are known now, in their units; those that grow as what they have come to.

        Args:
            texts: the content of the files that :meth:`paths` has just returned; b"" of one that could not be
                read.
        """


@dataclass(slots=True)
class ParsedSource:
    """A source whose files are always the same, and a function that gets the counters out of them."""

    counters: Sequence[str]
    files: Sequence[str]
    parse: Callable[[Sequence[bytes]], Mapping[str, float]]
    why: str = field(default="")

    def paths(self) -> Sequence[str]:
        """Return the files."""
        return self.files

    def values(self, texts: Sequence[bytes]) -> Mapping[str, float]:
        """Return what the function gets out of their content."""
        return self.parse(texts)


def why_unreadable(path: str) -> str:
    """Return why a file cannot be read, in words; "" if it can."""
    try:
        with open(path, "rb") as file:
            file.read(1)
    except OSError as error:
        return f"{path}: {error.strerror}"
    return ""
