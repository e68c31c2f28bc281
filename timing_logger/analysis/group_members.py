"""Which rank a number is in a group: messages name their other side by it, rooted operations their root.

Members are numbered from 0. torch numbers them in the order of their ranks, and so does MPI unless ``Split``
is given other keys; the name that a timed communicator then gets, ``ranks 3,1,0``, lists them as they are
numbered. From some of the members nobody can tell which numbers are theirs: {0, 2} may be 0 and 1 of a group,
or 0 and 2. So a number is a rank only where every member is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from timing_logger.analysis.grouping import rows_of_each
from timing_logger.analysis.tables import Floats, Frame, Ints, coded_text, numbers

NONE = -1

_MOST_MEMBERS = 10**6
"""More than any job has: what states more is not believed, and not counted up to."""

_RANGE = r"\d{1,6}(?:-\d{1,6})?"
_LIST = re.compile(rf"ranks ({_RANGE}(?:,{_RANGE})*)(?: #\d+)?")


def stated_world_size(files: Iterable[Mapping[str, Any]]) -> int | None:
    """How many ranks the run has, as the sidecars of its files say; None if none does, or they disagree.

    Args:
        files: ``attrs["files"]`` of ``read_timings``.
    """
    stated = {(file.get("sidecar") or {}).get("world_size") for file in files} - {None}
    return stated.pop() if len(stated) == 1 else None


def ranks_by_number(frame: Frame, number: Floats, communicator: Ints, world_size: int | None) -> Ints:
    """For each row the rank that has this number in the row's group; ``NONE`` where that cannot be told.

    Args:
        communicator: the number of each row's group.
        world_size: how many ranks the run has; None if unknown.
    """
    rank, size = frame["rank"].to_numpy().astype(np.int64), numbers(frame, "group_size")
    group, names = coded_text(frame, "group")
    found = np.full(len(number), NONE)
    for rows in rows_of_each(communicator):
        here = np.arange(len(number))[rows]
        name, its_size = names[group[here[0]]], float(size[here[0]])
        seen, here = np.unique(rank[here]), here[number[here] >= 0]
        its_number = number[here].astype(np.int64)
        if not name and np.isnan(its_size):  # of no group: a rank of the world
            found[here] = its_number
            continue
        members = members_of(name, its_size, seen, world_size)
        is_one = its_number < len(members)
        found[here[is_one]] = members[its_number[is_one]]
    return found


def own_numbers(group: tuple[Ints, list[str]], rank: Ints, place: Ints) -> Ints:
    """The number of each rank in a group of which all members are known.

    Args:
        group: of each entry, coded.
        place: of the rank among the members, in ascending order.
    """
    number = place
    for code, name in enumerate(group[1]):
        listed = _listed(name)
        order = np.argsort(listed)
        if (np.diff(order) < 0).any():
            here = np.flatnonzero((group[0] == code) & (place < len(listed)))
            here = here[rank[here] == listed[order[place[here]]]]
            number = number.copy()
            number[here] = order[place[here]]
    return number


def members_of(name: str, size: float, seen: Ints, world_size: int | None) -> Ints:
    """The ranks of a group in the order of their numbers; none where some may be unknown.

    Args:
        name: of the group.
        size: as its rows state it; NaN if they do not.
        seen: which ranks have rows of it, ascending.
    """
    none = seen[:0]
    if "|" in name:  # between two groups: the number is counted in the other one
        return none
    listed = _listed(name)
    if len(listed) == size and np.isin(seen, listed).all():
        return listed
    if np.isnan(size):
        return seen if len(seen) == world_size else none
    if size == world_size and seen[-1] < size <= _MOST_MEMBERS:
        return np.arange(world_size)
    return seen if len(seen) == size else none


def all_members(name: str, size: float, seen: Ints, world_size: int | None) -> Ints:
    """The ranks of a group, ascending, also of one between two groups; none where some may be unknown."""
    if name.startswith("ranks ") and "|" in name:
        both = [_listed(f"ranks {side}") for side in name.removeprefix("ranks ").split("|")]
        listed = np.unique(np.concatenate(both))
        return listed if len(listed) == size and np.isin(seen, listed).all() else seen[:0]
    return np.sort(members_of(name, size, seen, world_size)) if len(seen) else seen


def _listed(name: str) -> Ints:
    """The distinct ranks that the name of a timed communicator lists, in its order; none for other names."""
    match = _LIST.fullmatch(name)
    ends = [run.split("-") for run in match[1].split(",")] if match else []
    ranks = [np.arange(int(run[0]), int(run[-1]) + 1) for run in ends]
    listed = np.concatenate([np.zeros(0, np.int64), *ranks])
    return listed if len(np.unique(listed)) == len(listed) else listed[:0]
