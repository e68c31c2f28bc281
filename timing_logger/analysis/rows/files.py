"""What is known of each timing file that was read: the entries of ``attrs["files"]``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias, TypedDict, cast

import narwhals as nw
import numpy as np
from narwhals.typing import IntoDataFrame, IntoDataFrameT

from timing_logger.analysis.rows.arrays import Ints, dense_codes
from timing_logger.reading.alignment import Alignment
from timing_logger.reading.named_ranks import named_ranks
from timing_logger.reading.sources import Source
from timing_logger.results import criteria
from timing_logger.schema.record import NS_PER_S
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
            found.add(_process(file))
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


NO_ROLE = ""
"""The role of every rank where none is stated."""


def roles_of(
    timings: IntoDataFrameT, ranks: Iterable[int], stated: Mapping[int, object] | None
) -> dict[int, str]:
    """Return the role of each rank, as text.

    Roles are taken from what the caller states, else from a column ``role``, else from the labels in the
    sidecars of the files that were read (``timings.attrs["files"]``): equal labels are one role.
    A rank without any of these has the role ``NO_ROLE``.

    Args:
        timings: a table of timings.
        ranks: the ranks whose roles are returned.
        stated: the role of each rank, or of some; None to take the other sources.
    """
    known = stated or _from_column(timings) or _from_labels(timings)
    return {rank: _text(known.get(rank)) for rank in ranks}


def _from_column(timings: IntoDataFrameT) -> dict[int, object]:
    frame = nw.from_native(timings)
    if "role" not in frame.collect_schema().names():
        return {}
    stated = frame.select("rank", "role").unique()
    stated = stated.collect() if isinstance(stated, nw.LazyFrame) else stated
    return dict(stated.iter_rows())


def _from_labels(timings: IntoDataFrame) -> dict[int, object]:
    files: Sequence[File] = getattr(timings, "attrs", {}).get("files", [])
    return {file["rank"]: sidecar_of(file).get("labels") for file in files}


def _text(role: object) -> str:
    if isinstance(role, Mapping):
        return ", ".join(f"{name}={value}" for name, value in sorted(role.items()))
    return NO_ROLE if role is None or role != role else str(role)


def runs_of(rank: Ints, incarnation: Ints) -> Ints:
    """Return for each process the number of its run, from 0.

    If some rank has all incarnations that occur, it took part in every run, and incarnations number the runs:
    a rank that lacks one did not take part, or its file is lost. Else the k-th incarnation of each rank was
    of the k-th run, since a rank may have been started more often than another.

    Args:
        rank, incarnation: of the processes, in ascending order of rank, then incarnation.
    """
    place, n_runs = dense_codes(incarnation), len(np.unique(incarnation))
    of_rank = dense_codes(rank)
    if np.bincount(of_rank).max(initial=0) == n_runs:
        return place
    return np.arange(len(rank)) - np.searchsorted(of_rank, of_rank)


class _Lifetime(NamedTuple):
    began_ns: int
    ended_ns: int
    rank: int


def different_runs(files: Sequence[File]) -> str:
    """State why files look as if they were of different runs; "" if they do not.

    Only files that count as one run are compared, see ``runs_of``: a restart into the same folder is not a
    mixture of runs. A file whose own rows look like those of two processes is a mixture in itself.

    Args:
        files: ``attrs["files"]`` of ``read_timings``.
    """
    for file in files:
        if why := file.get("second_run"):
            return f"the file of rank {file['rank']} holds the rows of two processes: {why}"
    for alike in _by_run(files):
        lives = [(life, file) for file in alike if (life := _lifetime(file))]
        lives.sort(key=lambda pair: pair[0])
        for why in (_world_sizes(alike), _boots(alike), _apart(lives), _never_together(lives)):
            if why:
                return why
    return ""


def _by_run(files: Sequence[File]) -> Iterable[list[File]]:
    in_order = sorted(files, key=_process)
    processes = np.array([_process(file) for file in in_order], np.int64).reshape(-1, 2)
    runs = defaultdict(list)
    for file, run in zip(in_order, runs_of(*processes.T).tolist(), strict=True):
        runs[run].append(file)
    return runs.values()


def _process(file: File) -> tuple[int, int]:
    return file["rank"], file.get("incarnation", 1)


def _world_sizes(files: Sequence[File]) -> str:
    sizes = _ranks_by(files, lambda sidecar: sidecar.get("world_size"))
    if len(sizes) < 2:
        return ""
    return "the number of ranks is " + ", ".join(
        f"{size} of {named_ranks(ranks)}" for size, ranks in sizes.items()
    )


def _boots(files: Sequence[File]) -> str:
    """Name a host that was rebooted between its files; "" if there is none."""
    by_host: dict[str, list[File]] = defaultdict(list)
    for file in files:
        by_host[str(sidecar_of(file).get("host") or "")].append(file)
    for host in sorted(by_host.keys() - {""}):
        boots = _ranks_by(by_host[host], lambda sidecar: sidecar.get("boot_id"))
        if len(boots) > 1:
            whose = " and those of ".join(named_ranks(ranks) for ranks in boots.values())
            return f"the host {host} was rebooted between the files of {whose}"
    return ""


_Lives: TypeAlias = Sequence[tuple[_Lifetime, File]]
"""Files with their lifetimes, in the order of these."""


def _apart(lives: _Lives) -> str:
    """Name files that had ended long before others began; "" if there are none."""
    lifetimes = [life for life, _ in lives]
    ended_by = accumulate((life.ended_ns for life in lifetimes), max)
    for i, (ended_ns, later) in enumerate(zip(ended_by, lifetimes[1:], strict=False), 1):
        apart_s = (later.began_ns - ended_ns) / NS_PER_S
        if apart_s > criteria.MAX_APART_S:
            before, after = ([one.rank for one in part] for part in (lifetimes[:i], lifetimes[i:]))
            return f"{named_ranks(before)} had ended {apart_s:.0f} s before {named_ranks(after)} began"
    return ""


def _never_together(lives: _Lives) -> str:
    """Name two files on one clock, the first of which had ended before the other began; "" if there are none.

    Both have collectives of the same numbers, out of which no rank comes before all are in. With two such
    numbers, the first rank begins the second one after the other rank has begun the first.
    """
    for (life, file), (later, other) in pairwise(lives):
        apart_s = (later.began_ns - life.ended_ns) / NS_PER_S
        if (
            apart_s > criteria.MAX_APART_ON_ONE_CLOCK_S
            and _share_clock(file, other)
            and _share_numbers(file, other)
        ):
            return (
                f"{named_ranks([life.rank])} had ended {apart_s:.0f} s before {named_ranks([later.rank])} "
                "began, though both have the same collectives"
            )
    return ""


def _share_clock(one: File, other: File) -> bool:
    offsets_s = [file.get("wall_minus_counter_s") for file in (one, other)]
    first, second = (np.nan if offset_s is None else offset_s for offset_s in offsets_s)
    return bool(abs(first - second) < criteria.SAME_CLOCK_S)


def _share_numbers(one: File, other: File) -> bool:
    numbers = one.get("numbers") or {}, other.get("numbers") or {}
    both = [(numbers[0][group], numbers[1][group]) for group in numbers[0].keys() & numbers[1].keys()]
    return any(min(a[1], b[1]) > max(a[0], b[0]) for a, b in both)


def _lifetime(file: File) -> _Lifetime | None:
    """Return the lifetime of a file as the file states it, or its sidecar, while a run is watched."""
    sidecar = sidecar_of(file)
    span = file.get("span_unix_ns") or (sidecar.get("started_unix_ns"), sidecar.get("updated_unix_ns"))
    began_ns, ended_ns = span
    if not isinstance(began_ns, int) or not isinstance(ended_ns, int):
        return None
    return _Lifetime(began_ns, ended_ns, file["rank"])


def _ranks_by(
    files: Sequence[File], value_of: Callable[[SidecarContent], object]
) -> dict[int | str, list[int]]:
    """Return the ranks that state each value; a rank that states none agrees with all."""
    ranks: dict[int | str, list[int]] = defaultdict(list)
    for file in files:
        value = value_of(sidecar_of(file))
        if isinstance(value, (int, str)) and value != "":
            ranks[value].append(file["rank"])
    return dict(ranks)
