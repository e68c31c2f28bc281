"""Stalls the disk for a while. (P1, P2, P3, P10, P11)"""

from __future__ import annotations

import json
import sys

from processes import rows, run_job, run_python

from campaign.injected import in_writes
from campaign.trial import Trial

_IN_MEMORY = """
import sys, threading, time, tracemalloc
from misbehaving_sinks import StalledSink
from timing_logger import TimingLogger
from timing_logger.recording.cores.channel import BYTES_PER_RECORD
stall_s, capacity = float(sys.argv[1]), 20_000
sink = StalledSink()
logger = TimingLogger(0, log_dir=None, sinks=[sink], flush_interval=0.001, maxsize=capacity)
logger.record_timing("FIRST", 1.0)
assert sink.stalled.wait(30)
end_s = time.monotonic() + stall_s
tracemalloc.start()
for i in range(3 * capacity):
    logger.record_timing("A", 1.0, "layer1", i, "dense", i, i, group="world", group_size=4, seq=i, peer=i)
used_bytes, _ = tracemalloc.get_traced_memory()
tracemalloc.stop()
assert used_bytes <= capacity * BYTES_PER_RECORD, f"P3: {used_bytes} bytes wait"
recorded, worst_s, flush_at_s = 1 + 3 * capacity, 0.0, 0.0
while (now_s := time.monotonic()) < end_s:
    with logger.record_mpi_operation("B"):
        pass
    logger.record_timing("C", 1.0)
    worst_s = max(worst_s, time.monotonic() - now_s)
    recorded += 2
    time.sleep(0.0005)
    if time.monotonic() > flush_at_s:
        before_s = time.monotonic()
        assert not logger.flush(0.3), "P10: flush said that a stalled disk took everything"
        took_s = time.monotonic() - before_s
        assert took_s <= 0.4, f"P10: flush(0.3) took {took_s} s"
        flush_at_s = before_s + stall_s / 10
before_s = time.monotonic()
logger.close()
took_s = time.monotonic() - before_s
assert took_s <= 2.0, f"P11: close took {took_s} s"
assert worst_s < 0.5, f"P1: a recording call took {worst_s} s"
sink.resume()
assert logger.flush(30), "P10: what was pending has been written by now"
stats = logger.stats
assert stats.accepted == recorded and stats.pending == 0, (stats, recorded)
assert stats.written + stats.dropped == recorded and stats.written == len(sink.records), (stats, recorded)
print(worst_s)
"""

_ON_DISK = """
import sys, time
from timing_logger import TimingLogger
stall_s = float(sys.argv[2])
logger = TimingLogger(0, sys.argv[1], flush_interval=0.05)
logger.record_timing("A", 1.0, iteration=0)
time.sleep(0.5)  # the write of this row is the one that stalls
end_s, recorded, worst_s = time.monotonic() + stall_s - 1.5, 1, 0.0
while (now_s := time.monotonic()) < end_s:
    logger.record_timing("A", 1.0, iteration=recorded)
    worst_s = max(worst_s, time.monotonic() - now_s)
    recorded += 1
    time.sleep(0.001)
before_s = time.monotonic()
assert not logger.flush(0.3), "P10: flush said that a stalled disk took everything"
took_s = time.monotonic() - before_s
assert took_s <= 0.4, f"P10: flush(0.3) took {took_s} s"
assert worst_s < 0.5, f"P1: a recording call took {worst_s} s"
assert logger.flush(stall_s + 30), "P10: the disk works again"
stats = logger.stats
assert stats.accepted == recorded and stats.pending == 0 and stats.dropped == 0, (stats, recorded)
print(worst_s, recorded)
"""


def stalled_sink(trial: Trial) -> str:
    """Stall a sink: check the times of calls, flush and close, the memory, and the sums afterwards."""
    stall_s, worst_s = trial.times(60, 3), 0.0
    for number in range(trial.times(3, 1)):
        with trial.one(f"stall {number}"):
            run = run_python(_IN_MEMORY, stall_s, timeout_s=stall_s + 60)
            assert run.returncode == 0, run.stderr
            worst_s = max(worst_s, float(run.stdout))
    return (
        f"stalled for {stall_s} s; slowest recording call, with pauses of the machine: {worst_s * 1e3:.2f} ms"
    )


def stalled_disk(trial: Trial) -> str:
    """Stall a write of the flush thread: calls do not wait, flush answers in time, nothing is lost."""
    stall_s, worst_s = trial.times(60, 3), 0.0
    for number in range(trial.times(3, 1)):
        with trial.new_folder() as folder, trial.one(f"stall {number}"):
            # The second write to the file, after the header, is delayed in the kernel.
            held_back = in_writes(folder / "timing-rank0.csv", f"delay_enter={int(stall_s * 1e6)}:when=2")
            command = [*held_back, sys.executable, "-c", _ON_DISK, folder, stall_s]
            run = run_job(command, environment={}, limit_s=2 * stall_s + 60, name="a stalled disk")
            assert run.returncode == 0, run.stderr
            call_s, recorded = run.stdout.split()
            worst_s = max(worst_s, float(call_s))
            found = rows(folder / "timing-rank0.csv")
            assert [int(row[1]) for row in found] == list(range(int(recorded)))
            sidecar = json.loads((folder / "timing-rank0.meta.json").read_text())
            assert sidecar["closed"] is True
            assert sidecar["counters"]["written"] == int(recorded)
    return (
        f"stalled for {stall_s} s; slowest recording call, with pauses of the machine: {worst_s * 1e3:.2f} ms"
    )
