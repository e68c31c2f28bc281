"""Find the processes that belong to one run of a job, which may have been started several times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from timing_logger.analysis.rows.arrays import dense_codes
from timing_logger.analysis.rows.files import File, SidecarContent, sidecar_of
from timing_logger.analysis.rows.table_types import Ints
from timing_logger.reading.named_ranks import named_ranks
from timing_logger.results import criteria
from timing_logger.schema.record import NS_PER_S


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
    processes = [_process(file) for file in in_order]
    runs = defaultdict(list)
    for file, run in zip(in_order, runs_of(*np.array(processes, np.int64).reshape(-1, 2).T), strict=True):
        runs[int(run)].append(file)
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
