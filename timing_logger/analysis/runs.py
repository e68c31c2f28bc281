"""Find the processes that belong to one run of a job, which may have been started several times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.files import File, Sidecar, sidecar_of
from timing_logger.analysis.tables import Ints, dense_codes
from timing_logger.reading.named_ranks import named_ranks
from timing_logger.record import NS_PER_S


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


MAX_APART_S = 60
"""The longest time between processes of one run: they run together, but wall clocks of hosts may differ."""


class _Lifetime(NamedTuple):
    began_ns: int
    ended_ns: int
    rank: int


def different_runs(files: Sequence[File]) -> str:
    """State why files look as if they were of different runs; "" if they do not.

    Only files that count as one run are compared, see ``runs_of``: a restart into the same folder is not a
    mixture of runs.

    Args:
        files: ``attrs["files"]`` of ``read_timings``.
    """
    for alike in _by_run(files):
        for why in (_world_sizes(alike), _boots(alike), _apart(alike)):
            if why:
                return why
    return ""


def _by_run(files: Sequence[File]) -> Iterable[list[File]]:
    in_order = sorted(files, key=lambda file: (file["rank"], file.get("incarnation", 1)))
    processes = [(file["rank"], file.get("incarnation", 1)) for file in in_order]
    runs = defaultdict(list)
    for file, run in zip(in_order, runs_of(*np.array(processes, np.int64).reshape(-1, 2).T), strict=True):
        runs[int(run)].append(file)
    return runs.values()


def _world_sizes(files: Sequence[File]) -> str:
    sizes = _ranks_by(files, lambda sidecar: sidecar.get("world_size"))
    if len(sizes) < 2:
        return ""
    return "the number of ranks is " + ", ".join(
        f"{size} of {named_ranks(ranks)}" for size, ranks in sizes.items()
    )


def _boots(files: Sequence[File]) -> str:
    """Name a host that was rebooted between its files; "" if there is none."""
    for host in sorted({str(sidecar_of(file).get("host") or "") for file in files} - {""}):
        here = [file for file in files if sidecar_of(file).get("host") == host]
        boots = _ranks_by(here, lambda sidecar: sidecar.get("boot_id"))
        if len(boots) > 1:
            whose = " and those of ".join(named_ranks(ranks) for ranks in boots.values())
            return f"the host {host} was rebooted between the files of {whose}"
    return ""


def _apart(files: Sequence[File]) -> str:
    """Name files that had ended long before others began; "" if there are none."""
    lifetimes = sorted(filter(None, map(_lifetime, files)))
    for i in range(1, len(lifetimes)):
        ended_ns = max(earlier.ended_ns for earlier in lifetimes[:i])
        apart_s = (lifetimes[i].began_ns - ended_ns) / NS_PER_S
        if apart_s > MAX_APART_S:
            earlier, later = ([one.rank for one in part] for part in (lifetimes[:i], lifetimes[i:]))
            return f"{named_ranks(earlier)} had ended {apart_s:.0f} s before {named_ranks(later)} began"
    return ""


def _lifetime(file: File) -> _Lifetime | None:
    """Return the lifetime of a file as the file states it, or its sidecar, while a run is watched."""
    sidecar = sidecar_of(file)
    span = file.get("span_unix_ns") or (sidecar.get("started_unix_ns"), sidecar.get("updated_unix_ns"))
    began_ns, ended_ns = span
    if not isinstance(began_ns, int) or not isinstance(ended_ns, int):
        return None
    return _Lifetime(began_ns, ended_ns, file["rank"])


def _ranks_by(files: Sequence[File], value_of: Callable[[Sidecar], object]) -> dict[int | str, list[int]]:
    """Return the ranks that state each value; a rank that states none agrees with all."""
    ranks: dict[int | str, list[int]] = defaultdict(list)
    for file in files:
        value = value_of(sidecar_of(file))
        if isinstance(value, (int, str)) and value != "":
            ranks[value].append(file["rank"])
    return dict(ranks)
