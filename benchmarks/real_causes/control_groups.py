"""Control groups that limit one rank: made outside of the job, entered and switched by the rank."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from real_causes.keeper import called, kept

MEMORY_BYTES = 64 << 20  # what each rank touches in the scenario "memory"
_GROUP = "REAL_CAUSES_GROUP"
_ROOT = Path("/sys/fs/cgroup")


class Limit(NamedTuple):
    """A limit that a control group may have.

    Attributes:
        parent: the folder in which groups with this limit are made.
        file: its name in the folder of the group.
        on, off: what is written there to limit the group, and to limit it no longer.
    """

    parent: Path
    file: str
    on: str
    off: str


_HALF_A_CORE_US = 50_000  # in each period, which the kernel makes 100 ms long
_LESS_BYTES = MEMORY_BYTES * 3 // 4
_LIMITS = {
    "quota": (
        Limit(_ROOT / "cpu", "cpu.cfs_quota_us", f"{_HALF_A_CORE_US}", "-1"),
        Limit(_ROOT, "cpu.max", f"{_HALF_A_CORE_US}", "max"),
    ),
    "memory": (
        Limit(_ROOT / "memory", "memory.limit_in_bytes", f"{_LESS_BYTES}", "-1"),
        Limit(_ROOT, "memory.high", f"{_LESS_BYTES}", "max"),
    ),
}
"""By the scenario's name, in version 1 and in version 2 of control groups."""


def entered(scenario: str) -> Callable[[bool], None]:
    """Put this process into the group that was made for it, and return what switches its limit."""
    group, limit = Path(os.environ[_GROUP]), _limit(scenario)
    (group / "cgroup.procs").write_text(str(os.getpid()))

    def switch(on: bool) -> None:
        (group / limit.file).write_text(limit.on if on else limit.off)

    return switch


def swapping_out() -> Callable[[], None]:
    """Put this process into the group that was made for it, and return what swaps out a part of it.

    The limit holds for a moment only: in a small group that stays at it, the kernel may end the process.
    """
    switch = entered("memory")

    def swap_out() -> None:
        with suppress(OSError):  # it could not swap out as much at once
            switch(True)
        switch(False)

    return swap_out


@contextmanager
def with_quota() -> Iterator[dict[str, str]]:
    """Make a group for processor time. Raises OSError where that is not possible."""
    group = _group("quota")
    with kept(_removing(group)):
        yield _made(group, "quota")


@contextmanager
def with_swap() -> Iterator[dict[str, str]]:
    """Make a group for memory, and swap in a file. Raises OSError where either is not possible."""
    group = _group("memory")
    file = Path(tempfile.mkdtemp(dir=os.environ.get("REAL_CAUSES_DISK"))) / "swap"
    with kept(f"{_removing(group)}; swapoff {file} 2>/dev/null; rm -r {file.parent}"):
        file.touch(mode=0o600)
        file.write_bytes(bytes(4 * MEMORY_BYTES))  # less than half full, it is not written anew each time
        called("mkswap", str(file))
        called("swapon", str(file))
        yield _made(group, "memory")


def _limit(scenario: str) -> Limit:
    """Return the limit that groups of this machine may have. Raises OSError if it has no groups."""
    for limit in _LIMITS[scenario]:
        if (limit.parent / "cgroup.procs").exists():
            return limit
    raise OSError("there are no control groups")


def _group(scenario: str) -> Path:
    return _limit(scenario).parent / f"timing-logger-{os.getpid()}"


def _made(group: Path, scenario: str) -> dict[str, str]:
    """Make the group, and return what tells the ranks of it."""
    group.mkdir()
    if not (group / _limit(scenario).file).exists():
        raise OSError(f"{group} has no {_limit(scenario).file}")
    return {_GROUP: str(group)}


def _removing(group: Path) -> str:
    """Return the commands that remove a group, once no process of it is left."""
    return f"while [ -d {group} ]; do rmdir {group} 2>/dev/null || sleep 1; done"
