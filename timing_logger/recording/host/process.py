"""What the kernel counts for this process: waiting for a processor, its use, faults, memory, disks."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from timing_logger.recording.host.files import Parsed, Roots, Source

_NS_PER_US = 1000
_BYTES_PER_KB, _BYTES_PER_MB = 10**3, 10**6


def process_sources(roots: Roots) -> list[Source]:
    """Return what states the counters of this process."""
    of_self = roots.proc / "self"
    return [
        RunQueueWaits(roots),
        Usage(),
        Parsed(("resident_mb",), [f"{of_self}/statm"], _resident),
        Parsed(("process_read_kb", "process_written_kb"), [f"{of_self}/io"], _disk_bytes),
    ]


class RunQueueWaits:
    """For how long threads were ready to run and had no processor, in whole microseconds.

    A thread that ends between two readings takes along what it waited since the first of them: that is not
    counted.
    """

    counters = ("main_run_queue_wait_us", "run_queue_wait_us")
    why = ""

    def __init__(self, roots: Roots) -> None:
        self._tasks = str(roots.proc / "self" / "task")
        self._main = str(os.getpid())
        self._threads: list[str] = []
        self._wait_ns: dict[str, int] = {}
        self._total_ns = 0

    def paths(self) -> Sequence[str]:
        """Return a file for each thread that is there now; that of the main thread if none can be listed."""
        self._threads = [self._main]
        with suppress(OSError):
            self._threads = os.listdir(self._tasks)
        return [f"{self._tasks}/{thread}/schedstat" for thread in self._threads]

    def values(self, texts: Sequence[bytes]) -> Mapping[str, float]:
        """Return the waits of the main thread, and of all threads that were seen so far."""
        fields = {thread: text.split() for thread, text in zip(self._threads, texts, strict=True)}
        now_ns = {thread: int(stated[1]) for thread, stated in fields.items() if len(stated) > 1}
        if not now_ns:
            return {}
        self._total_ns += sum(self._grown_ns(thread, wait_ns) for thread, wait_ns in now_ns.items())
        self._wait_ns = now_ns
        found = {"run_queue_wait_us": self._total_ns // _NS_PER_US}
        if self._main in now_ns:
            found["main_run_queue_wait_us"] = now_ns[self._main] // _NS_PER_US
        return found

    def _grown_ns(self, thread: str, wait_ns: int) -> int:
        grown_ns = wait_ns - self._wait_ns.get(thread, 0)
        return grown_ns if grown_ns >= 0 else wait_ns  # another thread with the number of one that ended


class Usage:
    """What ``getrusage`` states, of all threads of the process."""

    counters = ("process_cpu_us", "involuntary_switches", "major_faults")
    why = ""

    def paths(self) -> Sequence[str]:
        """Return no file."""
        return ()

    def values(self, texts: Sequence[bytes]) -> Mapping[str, float]:
        """Return what the process used so far."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "process_cpu_us": time.process_time_ns() // _NS_PER_US,
            "involuntary_switches": used.ru_nivcsw,
            "major_faults": used.ru_majflt,
        }


def _resident(texts: Sequence[bytes]) -> Mapping[str, float]:
    fields = texts[0].split()
    if len(fields) < 2:
        return {}
    return {"resident_mb": int(fields[1]) * resource.getpagesize() // _BYTES_PER_MB}


def _disk_bytes(texts: Sequence[bytes]) -> Mapping[str, float]:
    stated = dict(line.split(b": ") for line in texts[0].splitlines())
    names = {"process_read_kb": b"read_bytes", "process_written_kb": b"write_bytes"}
    return {name: int(stated[key]) // _BYTES_PER_KB for name, key in names.items() if key in stated}
