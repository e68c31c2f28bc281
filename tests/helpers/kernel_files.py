"""A host of its own making: files as the kernel states its counters, in a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from timing_logger.recording.cores.chosen import SmallFiles
from timing_logger.recording.watchers.kernel_files import CounterSource, Roots


class KernelFiles:
    """A folder that stands in for ``/proc`` and ``/sys``.

    Attributes:
        roots: where the two are.
    """

    def __init__(self, folder: Path) -> None:
        self.roots = Roots(folder / "proc", folder / "sys")

    def write(self, path: str, text: str) -> Path:
        """Write a file, such as ``proc/loadavg``, and return where it is."""
        file = self.roots.proc.parent / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file


def read(sources: CounterSource | Sequence[CounterSource]) -> Mapping[str, float]:
    """Return what sources state now."""
    found: dict[str, float] = {}
    for source in [sources] if hasattr(sources, "values") else sources:
        found.update(source.values(SmallFiles().read(source.paths())))
    return found
