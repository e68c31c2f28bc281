"""Measures the memory of a process and all its descendants; Linux only.

Pages that several of them share are counted once (PSS), so that a worker which shares its parent's memory
does not count twice.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

_EVERY_S = 0.4  # not more often, as reading the pages of a process stops it for milliseconds


class PeakOfTree:
    """A context manager that samples the memory of process ``pid`` and its descendants.

    Attributes:
        peak_bytes: the most memory that they held together in any sample; 0 if the system does not tell.
    """

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
        self._pid = pid
        self._over = threading.Event()
        self._looking = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> PeakOfTree:
        self._looking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._looking.join()

    def _look(self) -> None:
        while not self._over.wait(_EVERY_S):
            self.peak_bytes = max(self.peak_bytes, sum(map(_pss_bytes, _tree(self._pid))))


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has ended
            for child in children.read_text().split():
                yield from _tree(int(child))


def _pss_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
