"""The control groups (cgroup v1 and v2) that this process is in: their quotas, and their pressure."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from timing_logger.recording.cores.python.small_files import read_file
from timing_logger.recording.watchers.kernel_files import Roots

_NS_PER_US = 1000


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
