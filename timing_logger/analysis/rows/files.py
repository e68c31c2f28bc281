"""What is known of each timing file that was read: the entries of ``attrs["files"]``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict, cast

from timing_logger.reading.alignment import Alignment
from timing_logger.reading.sources import Source
from timing_logger.schema.sidecar import NOT_TOLD

NATIVE_MPI = "native-mpi"
"""What the sidecar of a file names as the core if the library of ``run --native-mpi`` wrote it."""


class Anchor(TypedDict, total=False):
    """A moment that was read on two clocks."""

    uncertainty_ns: int


class FileDeviceClock(TypedDict, total=False):
    """The clock of a device; see ``sidecar.DeviceClockInfo``."""

    worst_uncertainty_ns: int


class SidecarContent(TypedDict, total=False):
    """The content of a sidecar, as far as it is used here; see ``sidecar.RunInfo``.

    All of it may be missing: versions differ, and values of a wrong type are left out.
    """

    world_size: int | None
    run_id: str
    labels: Mapping[str, object]
    options: Mapping[str, object]
    started_unix_ns: int
    updated_unix_ns: int
    closed: bool
    clock_anchors: Sequence[Anchor]
    device_clocks: Sequence[FileDeviceClock]
    counters: Mapping[str, int]
    untimed: Mapping[str, int]
    logger_cpu_ns: int
    host: str
    boot_id: str
    imported: Mapping[str, object] | None
    core: str
    core_note: str
    commit: str
    versions: Mapping[str, str]


class FileClock(TypedDict, total=False):
    """How the instants of a file were mapped to the common axis."""

    alignment: str
    uncertainty_s: float | None


class _OfRank(TypedDict):
    rank: int


class File(_OfRank, total=False):
    """An entry of ``attrs["files"]``; see ``read_timings``. Of a file that is not read only some is known."""

    path: str
    incarnation: int
    bytes: int
    rows: int
    cut: str
    bad_lines: int
    bad_examples: Sequence[str]
    sidecar: SidecarContent | None
    span_unix_ns: tuple[int, int] | None
    second_run: str
    wall_minus_counter_s: float | None
    numbers: Mapping[str, tuple[int, int]]
    clock: FileClock


class FileCounters(TypedDict):
    """The counts in the sidecar of a file, and the rows that were read from it; see ``compare_counters``."""

    rank: int
    incarnation: int
    file: str
    rows: int
    has_sidecar: bool
    accepted: int | None
    written: int | None
    dropped: int | None
    pending: int | None
    closed: bool | None
    agrees: bool | None


def unread_files(aligned: Iterable[tuple[Source, Alignment]]) -> list[File]:
    """Return as much of ``attrs["files"]`` as is known without reading the rows of these files again.

    Args:
        aligned: each file, and how its instants are mapped to the common axis.
    """
    return [
        cast("File", {**source.stated(), "second_run": source.second_run, "clock": clock.description()})
        for source, clock in aligned
    ]


def run_python(files: Iterable[File]) -> bool:
    """Tell whether some process ran Python: not all files are of the library of ``run --native-mpi``."""
    cores = {sidecar_of(file).get("core") for file in files}
    return cores != {NATIVE_MPI}


def not_told(files: Iterable[File]) -> dict[str, list[str]]:
    """Return what the sources of imported files do not tell, by the kind of the import.

    The names are those of ``sidecar.NOT_TOLD``, in its order; names that it does not have are left out.
    """
    told: dict[str, set[str]] = {}
    for file in files:
        imported = sidecar_of(file).get("imported") or {}
        names = imported.get("not_told")
        told.setdefault(str(imported.get("kind")), set()).update(names if isinstance(names, list) else [])
    found = {kind: [name for name in NOT_TOLD if name in names] for kind, names in told.items()}
    return {kind: names for kind, names in found.items() if names}


def laid_end_to_end(files: Iterable[File]) -> set[tuple[int, int]]:
    """Return rank and incarnation of those whose rows an import put one after the other, without gaps.

    Their source tells what a rank was in, and not when: the instants of these rows are of no clock. Steps
    that follow each other are another matter: nothing was left out between them.
    """
    found = set()
    for file in files:
        names = (sidecar_of(file).get("imported") or {}).get("not_told")
        if isinstance(names, list) and "instants" in names and "communication" not in names:
            found.add((file["rank"], file.get("incarnation", 1)))
    return found


def hosts_of(files: Iterable[File]) -> dict[int, str]:
    """Return the host of each rank; "" where it is not stated, or its processes ran on several."""
    hosts: dict[int, str] = {}
    for file in files:
        rank, host = file["rank"], str(sidecar_of(file).get("host") or "")
        hosts[rank] = host if hosts.get(rank, host) == host else ""
    return hosts


def sidecar_of(file: File) -> SidecarContent:
    """Return the content of a file's sidecar; an empty one if it has none."""
    return file.get("sidecar") or {}
