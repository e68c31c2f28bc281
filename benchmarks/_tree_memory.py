"""The memory of a process and of all that it started; Linux only.

Pages that several of them share are counted once (PSS), so a worker that holds what its parent holds is
not counted as twice as much.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

_EVERY_S = 0.4  # asking a process for its pages holds it up for milliseconds


class PeakOfTree:
    """Looks again and again, in a ``with`` block, at the process ``pid`` and its descendants.

    Attributes:
        peak_bytes: the most that they held together at any look; 0 where the system does not tell.
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
