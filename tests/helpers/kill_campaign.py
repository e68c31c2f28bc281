"""Processes that record, killed at random instants: what was in the file by then? (P4)

Each child notes in memory shared with this process, after each recording call, when the call returned.
``python tests/helpers/kill_campaign.py --kills 300`` prints one JSON line for each way of :data:`WAYS`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from conditions import wait_for

from timing_logger.reading.recovery import recover
from timing_logger.schema.defaults import RECORD_LATE_S
from timing_logger.schema.record import INFLIGHT

NS_PER_S = 1_000_000_000
ALLOWED_S = 0.5
"""A record that is older than ``flush_interval`` plus this many seconds at the kill must be in the file."""


_RECORDER = """
import mmap, sys, time
from timing_logger import TimingLogger
folder, shared, interval_s, per_s = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
with open(shared, "r+b") as file:
    returned_ns = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
logger = TimingLogger(0, folder, flush_interval=interval_s)
now_ns = time.perf_counter_ns
start_ns = now_ns()
for i in range(len(returned_ns)):
    while (i * 1_000_000_000) // per_s > now_ns() - start_ns:
        pass  # a training thread that is busy in Python: it gives up the interpreter only when it must
    with logger.record_mpi_operation("ALLREDUCE", 1024, "layer", iteration=i):
        pass
    returned_ns[i] = now_ns()
time.sleep(3600)
"""


class Way(NamedTuple):
    """A way in which a process records.

    Attributes:
        per_s: records per second.
        busy_loops: the number of busy processes beside it.
        flush_interval_s: the logger's ``flush_interval`` in s.
    """

    per_s: int
    busy_loops: int
    flush_interval_s: float = 1.0


WAYS = {
    "quiet": Way(1000, 0),
    "loaded": Way(1000, 2),
    "crowded": Way(1000, 8),
    "100,000 records/s": Way(100_000, 0),
}


class Kill(NamedTuple):
    """What one kill left; times are in s.

    Attributes:
        after_s: the time from the first recording call to the kill.
        recorded: the number of calls that had returned.
        rows: the number of complete lines in the file.
        missing_s: the age at the kill of the oldest record that is in no line; 0 if none is missing.
        behind_s, dropped: the values in the sidecar.
        sidecar_s: the age of the sidecar at the kill.
        recovered: the number of rows after a recovery, of calls that had ended.
        lost: the number of calls that had returned and have no row, or several, after it.
    """

    after_s: float
    recorded: int
    rows: int
    missing_s: float
    behind_s: float
    dropped: int
    sidecar_s: float
    recovered: int
    lost: int

    def misses(self, flush_interval_s: float) -> bool:
        """Tell whether a record is missing that is promised to be in the file."""
        return self.missing_s > flush_interval_s + ALLOWED_S

    def is_told(self, flush_interval_s: float) -> bool:
        """Tell whether the sidecar says that records are late or were dropped."""
        return self.behind_s > flush_interval_s + RECORD_LATE_S or self.dropped > 0


@contextlib.contextmanager
def busy_loops(number: int) -> Iterator[None]:
    """Run ``number`` processes beside the block that keep a core busy each."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def kill_once(folder: Path, way: Way, after_s: float) -> Kill:
    """Start a process that records into ``folder``; kill it ``after_s`` seconds after its first record."""
    shared = folder / "returned_ns"
    with open(shared, "wb") as file:
        file.truncate(8 * int(way.per_s * (after_s + 5)))
    command = [sys.executable, "-c", _RECORDER, folder / "logs", shared, way.flush_interval_s, way.per_s]
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.DEVNULL)
    try:
        first_ns = _first_return_ns(shared, process)
        time.sleep(max(0.0, after_s - (time.perf_counter_ns() - first_ns) / NS_PER_S))
        killed_ns = time.perf_counter_ns()
    finally:
        process.kill()
        process.wait()
    return _found(folder, shared, killed_ns)


def _first_return_ns(shared: Path, process: subprocess.Popen[bytes]) -> int:
    with open(shared, "rb", buffering=0) as file:
        return wait_for(
            lambda: int.from_bytes(os.pread(file.fileno(), 8, 0), sys.byteorder), "a first record", by=process
        )


def _found(folder: Path, shared: Path, killed_ns: int) -> Kill:
    returned_ns = array("q", shared.read_bytes())
    shared.unlink()
    recorded = next((i for i, instant in enumerate(returned_ns) if not instant), len(returned_ns))
    timing_file = folder / "logs" / "timing-rank0.csv"
    before = _iterations(timing_file)
    in_file = set(before)
    oldest = next(
        (instant for i, instant in enumerate(returned_ns[:recorded]) if i not in in_file), killed_ns
    )
    sidecar = json.loads((folder / "logs" / "timing-rank0.meta.json").read_text())
    anchor = sidecar["clock_anchors"][-1]
    updated_ns = sidecar["updated_unix_ns"] - anchor["unix_ns"] + anchor["perf_counter_ns"]
    recover(folder / "logs")
    recovered = Counter(_iterations(timing_file))
    return Kill(
        recovered=recovered.total(),
        lost=sum(recovered[i] != 1 for i in range(recorded)),
        after_s=(killed_ns - returned_ns[0]) / NS_PER_S,
        recorded=recorded,
        rows=len(before),
        missing_s=(killed_ns - oldest) / NS_PER_S,
        behind_s=sidecar.get("behind_s", 0.0),
        dropped=sidecar["counters"]["dropped"],
        sidecar_s=(killed_ns - updated_ns) / NS_PER_S,
    )


def _iterations(timing_file: Path) -> list[int]:
    """Return the iterations of the rows of calls that had ended.

    A line that the kill tore has no end, or a NUL before it. A call that was open when the flush thread last
    looked has a row of that beside its own; who reads leaves it out.
    """
    lines = timing_file.read_bytes().split(b"\n")[1:-1]
    rows = [line.split(b",") for line in lines if not line.endswith(b"\0")]
    return [int(row[1]) for row in rows if row[16] != INFLIGHT.encode()]


def campaign(way: Way, kills: int, seed: int = 0) -> list[Kill]:
    """Kill ``kills`` processes, each at a random instant in the first second in which the promise applies."""
    chance = random.Random(seed)
    begins_s = way.flush_interval_s + ALLOWED_S
    found = []
    with busy_loops(way.busy_loops):
        for _ in range(kills):
            with tempfile.TemporaryDirectory() as folder:
                found.append(kill_once(Path(folder), way, begins_s + chance.random()))
    return found


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--way", choices=WAYS, action="append")
    options = parser.parse_args()
    for name in options.way or WAYS:
        way = WAYS[name]
        found = campaign(way, options.kills)
        ages_s = sorted(kill.missing_s for kill in found)
        result = {
            "way": name, **way._asdict(), "kills": len(found),
            "missed": sum(kill.misses(way.flush_interval_s) for kill in found),
            "missed_untold": sum(
                kill.misses(way.flush_interval_s) and not kill.is_told(way.flush_interval_s) for kill in found
            ),
            "lost": sum(kill.lost for kill in found),
            "without_rows": sum(kill.rows == 0 for kill in found),
            "median_missing_s": round(ages_s[len(ages_s) // 2], 3), "worst_missing_s": round(ages_s[-1], 3),
        }  # fmt: skip
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    _main()
