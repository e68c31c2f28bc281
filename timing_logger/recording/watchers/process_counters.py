"""What the kernel counts for this process: waiting for a processor, its use, faults, memory, disks."""

from __future__ import annotations

import os
import resource
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress

from timing_logger.recording.watchers.kernel_files import CounterSource, ParsedSource, Roots

_NS_PER_US = 1000
_BYTES_PER_KB, _BYTES_PER_MB = 10**3, 10**6

_MOST_THREADS, _MOST_BUSY = 10, 7  # each file takes microseconds, and some programs have hundreds of threads
_N_THREADS, _RESIDENT = 17, 21  # of the fields in /proc/self/stat behind the name


def process_sources(roots: Roots) -> list[CounterSource]:
    """Return what states the counters of this process."""
    of_self = roots.proc / "self"
    return [
        ThreadWaits(roots),
        Usage(),
        ParsedSource(("process_read_kb", "process_written_kb"), [f"{of_self}/io"], _disk_bytes),
    ]


class ThreadWaits:
    """For how long threads were ready to run and had no processor, and the memory that they share.

    The first reading looks at all threads, and each later one at 10 at most: the main thread, those that had
    waited since they were last looked at, and the others in turn. So what a thread waits that mostly sleeps
    may be counted some readings later. A thread that ends takes along what it waited since it was last looked
    at. Threads are listed anew when their number has changed, as listing them takes as long as five files.
    """

    counters = ("main_run_queue_wait_us", "run_queue_wait_us", "resident_mb")
    why = ""

    def __init__(self, roots: Roots) -> None:
        self._stat = str(roots.proc / "self" / "stat")
        self._tasks = str(roots.proc / "self" / "task")
        self._main = str(os.getpid())
        self._known: deque[str] = deque()
        self._looked_at: list[str] = []
        self._busy: list[str] = []
        self._wait_ns: dict[str, int] = {}
        self._total_ns = 0

    def paths(self) -> Sequence[str]:
        """Return the file of the process, and one for each thread to be looked at now."""
        chosen = dict.fromkeys([self._main, *self._busy])
        if not self._known:
            self._known.extend(_listed(self._tasks))
            if not self._wait_ns:
                chosen.update(dict.fromkeys(self._known))
            self._wait_ns = {one: self._wait_ns[one] for one in self._known if one in self._wait_ns}
        for _ in range(min(len(self._known), _MOST_THREADS - len(chosen))):
            chosen[self._known[0]] = None
            self._known.rotate(-1)
        self._looked_at = list(chosen)
        return [self._stat, *(f"{self._tasks}/{thread}/schedstat" for thread in self._looked_at)]

    def values(self, texts: Sequence[bytes]) -> Mapping[str, float]:
        """Return the waits of the main thread and of all threads that were seen so far, and the memory."""
        found: dict[str, float] = {}
        of_process = texts[0].rpartition(b") ")[2].split()  # behind the name, which may hold anything
        if len(of_process) > _RESIDENT:
            found["resident_mb"] = int(of_process[_RESIDENT]) * resource.getpagesize() // _BYTES_PER_MB
        grown_ns = self._grown_ns(texts[1:])
        self._total_ns += sum(grown_ns.values())
        if self._main in grown_ns:
            found["main_run_queue_wait_us"] = self._wait_ns[self._main] // _NS_PER_US
            found["run_queue_wait_us"] = self._total_ns // _NS_PER_US
        by_wait = sorted((thread for thread in grown_ns if grown_ns[thread]), key=grown_ns.__getitem__)
        self._busy = by_wait[-_MOST_BUSY:]
        if len(of_process) > _RESIDENT and int(of_process[_N_THREADS]) != len(self._known):
            self._known.clear()
        return found

    def _grown_ns(self, texts: Sequence[bytes]) -> dict[str, int]:
        """Return for how long each thread waited since it was last looked at, or since it began."""
        grown_ns = {}
        for thread, text in zip(self._looked_at, texts, strict=True):
            if len(stated := text.split()) > 1:
                wait_ns, before_ns = int(stated[1]), self._wait_ns.get(thread, 0)
                # A lower one is that of another thread, which has the number of one that ended.
                grown_ns[thread] = wait_ns - before_ns if wait_ns >= before_ns else wait_ns
                self._wait_ns[thread] = wait_ns
        return grown_ns


def _listed(folder: str) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder)
    return []


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


def _disk_bytes(texts: Sequence[bytes]) -> Mapping[str, float]:
    stated = dict(line.split(b": ") for line in texts[0].splitlines())
    names = {"process_read_kb": b"read_bytes", "process_written_kb": b"write_bytes"}
    return {name: int(stated[key]) // _BYTES_PER_KB for name, key in names.items() if key in stated}
