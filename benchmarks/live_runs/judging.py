"""The process whose time and memory ``size.py`` states: it judges packed digests, as a monitor does.

Run: python -m live_runs.judging FOLDER, as ``size.py`` does; it prints a line of JSON.
"""

from __future__ import annotations

import gc
import json
import pickle
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from timing_logger.live.monitor_loop import COLLECT_AFTER
from timing_logger.live.packed import unpacked
from timing_logger.live.watcher import snapshot_of
from timing_logger.live.window import Window
from timing_logger.schema.defaults import MONITOR_WINDOW_S

OWN = "own.pickle"
"""The digest that whoever judges made itself: of its own host, and in no bytes."""


def main(folder: Path) -> dict[str, Any]:
    """Take in the digests of one look after the other, and judge at the last, which is measured."""
    gc.set_threshold(COLLECT_AFTER)
    window, found = Window(MONITOR_WINDOW_S), {}
    *before, last = sorted(folder.iterdir())
    for look in before:
        _take_in(window, look)
    snapshot_of(_of_own_host(before))  # imports what it needs
    began_s = time.process_time()
    _take_in(window, last)
    found["unpacked_s"] = time.process_time() - began_s
    verdict = snapshot_of(window).verdict
    found["judged_s"] = time.process_time() - began_s
    found["peak_bytes"] = _peak_bytes()
    found["rows"] = len(window.now().timings)
    return {**found, "verdict": verdict.verdict, "ranks": list(verdict.ranks)}


def _peak_bytes() -> int:
    """Return the most memory that this program had; what ``getrusage`` states is also of who started it."""
    (line,) = (one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


def _of_own_host(looks: Sequence[Path]) -> Window:
    window = Window(MONITOR_WINDOW_S)
    for look in looks:
        window.add(pickle.loads((look / OWN).read_bytes()))
    return window


def _take_in(window: Window, look: Path) -> None:
    window.add(pickle.loads((look / OWN).read_bytes()))
    for path in look.glob("*.digest"):
        window.add(unpacked(path.read_bytes()))


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
