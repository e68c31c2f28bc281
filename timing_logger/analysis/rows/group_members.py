"""Number the groups of rows, and convert between ranks and their numbers in a group.

Messages name their other side by its number in the group, rooted operations their root. Members are numbered
from 0. torch numbers them in the order of their ranks, and so does MPI unless ``Split`` is given other keys;
the name that a timed communicator then gets, ``ranks 3,1,0``, lists them in the order of their numbers. If
only some members are known, their numbers are not: {0, 2} may be numbers 0 and 1 of a group, or 0 and 2. So a
number is converted only where every member is known.
"""

from __future__ import annotations

import re

import numpy as np

from timing_logger.analysis.rows.analysis import RUN_OF_RANK
from timing_logger.analysis.rows.arrays import (
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    numbers,
    processes_of,
)
from timing_logger.analysis.rows.files import runs_of
from timing_logger.analysis.rows.grouping import any_row_of, rows_of_each
from timing_logger.results import criteria

NONE = -1


_RANGE = r"\d{1,6}(?:-\d{1,6})?"
_LIST = re.compile(rf"ranks ({_RANGE}(?:,{_RANGE})*)(?: #\d+)?")


def communicators(frame: Frame, row: Ints | slice = slice(None)) -> Ints:
    """Number the groups of the given rows, from 0.

    The same name with another size, or in another run of the ranks, is another group.

    Args:
        frame: a table that ``opened`` returned.
        row: positions of the rows; all rows by default.

    Returns:
        The number of the group of each given row.
    """
    keys = coded_text(frame, "group")[0], numbers(frame, "group_size"), _runs(frame)
    return dense_codes(*(key[row] for key in keys))


def _runs(frame: Frame) -> Ints:
    """Return the number of each row's run.

    Only rows of one run are matched, since each run counts its operations from 0.
    """
    if RUN_OF_RANK in frame.columns:
        return frame[RUN_OF_RANK].to_numpy()
    rank, incarnation = frame["rank"].to_numpy(), frame["incarnation"].to_numpy()
    if (incarnation == incarnation[:1]).all():
        return np.zeros(len(rank), np.int64)
    process = processes_of(frame)
    one = any_row_of(process)
    return runs_of(rank[one], incarnation[one])[process]


def ranks_by_number(frame: Frame, number: Floats, communicator: Ints, world_size: int | None) -> Ints:
    """Return for each row the rank that has the given number in the row's group; ``NONE`` where unknown.

    Args:
        frame: a table that ``opened`` returned.
        number: for each row a number of a member in the row's group; NaN for none.
        communicator: for each row the number of its group.
        world_size: the number of ranks in the run; None if unknown.
    """
    rank, size = frame["rank"].to_numpy().astype(np.int64), numbers(frame, "group_size")
    group, names = coded_text(frame, "group")
    found = np.full(len(number), NONE)
    for rows in rows_of_each(communicator):
        here = np.arange(len(number))[rows]
        name, its_size = names[group[here[0]]], float(size[here[0]])
        seen, here = np.unique(rank[here]), here[number[here] >= 0]
        its_number = number[here].astype(np.int64)
        if not name and np.isnan(its_size):  # no group is stated: the number is a rank of the world
            found[here] = its_number
            continue
        members = members_of(name, its_size, seen, world_size)
        is_one = its_number < len(members)
        found[here[is_one]] = members[its_number[is_one]]
    return found


def own_numbers(group: tuple[Ints, list[str]], rank: Ints, place: Ints) -> Ints:
    """Return the number of each rank in its group, of which all members are known.

    Args:
        group: for each entry the name of the group, as ``coded_text`` returns.
        rank: for each entry the rank.
        place: for each entry the position of the rank among the members in ascending order.
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
    """Return the ranks of a group in the order of their numbers; none where some may be unknown.

    Args:
        name: the name of the group.
        size: the size of the group as its rows state it; NaN if they do not.
        seen: the ranks that have rows of the group, ascending.
        world_size: the number of ranks in the run; None if unknown.
    """
    none = seen[:0]
    if "|" in name:  # an intercommunicator: the number is that in the remote group
        return none
    listed = _listed(name)
    if len(listed) == size and np.isin(seen, listed).all():
        return listed
    if np.isnan(size):
        return seen if len(seen) == world_size else none
    if size == world_size and seen[-1] < size <= criteria.MAX_RANKS:
        return np.arange(world_size)
    return seen if len(seen) == size else none


def all_members(name: str, size: float, seen: Ints, world_size: int | None) -> Ints:
    """Return the ranks of a group or intercommunicator, ascending; none where some may be unknown.

    The arguments are those of :func:`members_of`.
    """
    if name.startswith("ranks ") and "|" in name:
        both = [_listed(f"ranks {side}") for side in name.removeprefix("ranks ").split("|")]
        listed = np.unique(np.concatenate(both))
        return listed if len(listed) == size and np.isin(seen, listed).all() else seen[:0]
    return np.sort(members_of(name, size, seen, world_size)) if len(seen) else seen


def _listed(name: str) -> Ints:
    """Return the distinct ranks that the name of a timed communicator lists, in order; none for others."""
    match = _LIST.fullmatch(name)
    ends = [run.split("-") for run in match[1].split(",")] if match else []
    ranks = [np.arange(int(run[0]), int(run[-1]) + 1) for run in ends]
    listed = np.concatenate([np.zeros(0, np.int64), *ranks])
    return listed if len(np.unique(listed)) == len(listed) else listed[:0]
