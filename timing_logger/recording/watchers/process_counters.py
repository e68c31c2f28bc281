"""What the kernel counts for this process and its group: waiting, processors, faults, memory, disks."""

from __future__ import annotations

import math
import os
import resource
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from timing_logger.recording.cores.python.small_files import read_file
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
        ParsedSource(("process_cpu_us", "involuntary_switches", "major_faults"), [], _usage),
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
            with suppress(OSError):
                self._known.extend(os.listdir(self._tasks))
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


def _usage(texts: Sequence[bytes]) -> Mapping[str, float]:
    """Return what the process used so far, all of its threads, as ``getrusage`` states it: in no file."""
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


# -- its control group, and those around it --------------------------------------------------------------


def group_folders(roots: Roots, controller: str) -> list[Path]:
    """Return the folder of this process's control group, and those of the groups around it, innermost first.

    The list ends where the file system that the process sees does: a container sees no groups around its
    own. It is empty if the process's own group is not seen.

    Args:
        controller: the controller of a hierarchy of version 1, or "" for version 2.
    """
    path, mount = _path_of_group(roots, controller), _mount(roots, controller)
    if path is None or mount is None:
        return []
    shown, folder = mount
    if not (path == shown or path.startswith(shown.rstrip("/") + "/")):
        return []
    inner = Path(path[len(shown.rstrip("/")) :].lstrip("/"))
    return [folder / inner, *(folder / parent for parent in inner.parents if inner.name)]


def _path_of_group(roots: Roots, controller: str) -> str | None:
    for line in read_file(str(roots.proc / "self" / "cgroup")).decode().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path
    return None


def _mount(roots: Roots, controller: str) -> tuple[str, Path] | None:
    """Return which group is the root of the mounted hierarchy, and the folder where it is mounted."""
    for line in read_file(str(roots.proc / "self" / "mountinfo")).decode(errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        kind, options = after.partition(" ")[0], after.rpartition(" ")[2].split(",")
        if kind == ("cgroup" if controller else "cgroup2") and (not controller or controller in options):
            fields = before.split()
            return fields[3], Path(fields[4])
    return None


class Quotas:
    """For how long quotas stopped the process, and how many cores it may use.

    Looked at are its own group and those around it that had a quota when the process began to record. Quotas
    are those of that moment.
    """

    counters = ("throttled_periods", "throttled_us", "usable_cores")

    def __init__(self, roots: Roots) -> None:
        is_v1 = bool(groups := group_folders(roots, "cpu"))
        files = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if is_v1 else ("cpu.max",)
        groups = groups or group_folders(roots, "")
        stating = [group for group in groups if b"nr_throttled" in read_file(f"{group}/cpu.stat")]
        cores = {group: _quota([read_file(f"{group}/{name}") for name in files]) for group in stating}
        looked_at = [group for group in stating if group == stating[0] or cores[group] is not None]
        self._files = [f"{group}/cpu.stat" for group in looked_at]
        self._cores = min((one for one in cores.values() if one is not None), default=math.inf)
        self.why = "" if looked_at else "no control group of the process states how it is throttled"

    def paths(self) -> Sequence[str]:
        """Return the file of each group that states how it was throttled."""
        return self._files

    def values(self, texts: Sequence[bytes]) -> Mapping[str, float]:
        """Return the sums over these groups, and how many cores the process may use."""
        found: dict[str, float] = {}
        if hasattr(os, "sched_getaffinity"):  # of the main thread: others may have narrower ones
            found["usable_cores"] = min(self._cores, len(os.sched_getaffinity(os.getpid())))
        stated = [_throttled(text) for text in texts if b"nr_throttled" in text]
        if stated:
            found["throttled_periods"] = sum(periods for periods, _ in stated)
            found["throttled_us"] = sum(time_us for _, time_us in stated)
        return found


def _throttled(text: bytes) -> tuple[int, int]:
    """Return in how many periods a group was stopped, and for how many microseconds."""
    stated = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
    in_ns = stated.get(b"throttled_time")  # version 1
    time_us = int(in_ns) // _NS_PER_US if in_ns is not None else int(stated.get(b"throttled_usec", 0))
    return int(stated[b"nr_throttled"]), time_us


def _quota(texts: Sequence[bytes]) -> float | None:
    """Return how many cores a group may use; None if there is no quota."""
    with suppress(ValueError, ZeroDivisionError):
        quota_us, period_us = map(float, b" ".join(texts).split())  # "max" is no number
        return round(quota_us / period_us, 2) if quota_us > 0 else None
    return None
