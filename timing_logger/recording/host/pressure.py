"""Pressure stall information (PSI): for how long tasks waited for processors, disks and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from timing_logger.recording.host.control_groups import group_folders
from timing_logger.recording.host.files import Parsed, Roots, Source

_RESOURCES = ("cpu", "io", "memory")
_KINDS = ("some", "full")


def pressure_sources(roots: Roots) -> list[Source]:
    """Return what states the pressure on the host, and on the process's own control group."""
    of_host = [_source("", resource, roots.proc / "pressure" / resource) for resource in _RESOURCES]
    own = next(iter(group_folders(roots, "")), None)
    if own is None or not (own / "cgroup.type").exists():  # the group of all processes has no such file
        names = [name for resource in _RESOURCES for name in _names("cgroup_", resource)]
        why = "the process is in no control group (cgroup v2) of its own"
        return [*of_host, Parsed(names, [], lambda texts: {}, why)]
    of_group = [_source("cgroup_", resource, own / f"{resource}.pressure") for resource in _RESOURCES]
    return [*of_host, *of_group]


def _names(of: str, resource: str) -> list[str]:
    return [f"{of}{resource}_pressure_{kind}_us" for kind in _KINDS]


def _source(of: str, resource: str, file: Path) -> Parsed:
    names = _names(of, resource)
    return Parsed(names, [str(file)], partial(_totals, dict(zip(_KINDS, names, strict=True))))


def _totals(names: Mapping[str, str], texts: Sequence[bytes]) -> Mapping[str, float]:
    found = {}
    for line in texts[0].splitlines():
        kind, total = line[:4].decode(), line.partition(b" total=")[2]
        if kind in names and total:
            found[names[kind]] = int(total)
    return found
