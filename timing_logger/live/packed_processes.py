"""What a digest says of processes, as JSON: what is judged, and of long lists as much as there is room for.

A process may be in hundreds of groups. Where there is no room for all, each digest tells of some in turn, so
that who reads them knows all of a process that stands still (``told_groups.py``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from timing_logger.analysis.hangs.sidecar_state import N_GROUPS
from timing_logger.live.digest import ProcessPlace
from timing_logger.reading.living import ALIVE

MOST = 512
"""Of how many groups of a process a digest tells; of open calls, and frames of a stack, an eighth of that."""

LEAST = 4
"""The same where there is no room; of open calls and frames, too."""

_JUDGED = (
    "host", "boot_id", "core", "world_size", "run_id", "world", "started_unix_ns", "updated_unix_ns", ALIVE,
    "closed", "killed", "signal", "ended_by", "labels", "options", "clock_anchors", "clock_offsets",
    "counters", "untimed", "groups", "open_calls", "idle_stack", "last_stall", "last_progress_counter_ns",
)  # fmt: skip
_FLOATS = frozenset({"since_s", "until_s", "wall_offset_s"})  # NaN is no JSON
_LATEST = 4  # of the measurements of a clock: the others are of times before the window
_MOST_RANKS = 16  # in the option of that name: each process states all that record
_MOST_UNTIMED = 8

_Dict = dict[str, Any]


def plain(processes: Sequence[ProcessPlace], number: int, most: int = MOST) -> _Dict:
    """Return what is said of processes as plain values.

    Args:
        processes: where each of them is.
        number: that of the digest, which tells whose turn it is.
        most: how many groups of a process are stated, at least ``LEAST``.
    """
    counts = _Counts()
    stated = [_plain(one, counts, number, most) for one in processes]
    return {"groups": counts.names, "processes": stated}


def processes_of(stated: Mapping[str, Any]) -> list[ProcessPlace]:
    """Return the processes that :func:`plain` stated.

    Raises:
        KeyError, TypeError, ValueError, IndexError, AttributeError: it stated none of this.
    """
    counts = _Counts(stated["groups"])
    return [_process(one, counts) for one in stated["processes"]]


def as_json(content: Mapping[str, Any]) -> bytes:
    """Return plain values as JSON without spaces."""
    return json.dumps(content, separators=(",", ":")).encode()


def _plain(process: ProcessPlace, counts: _Counts, number: int, most: int) -> _Dict:
    sidecar = {name: process.sidecar[name] for name in _JUDGED if name in process.sidecar}
    for name in ("clock_anchors", "clock_offsets"):
        if name in sidecar:
            sidecar[name] = sidecar[name][-_LATEST:]
    if "options" in sidecar:
        sidecar["options"] = _options(sidecar["options"], process.rank)
    if "untimed" in sidecar:
        sidecar["untimed"] = dict(sorted(sidecar["untimed"].items(), key=lambda one: -one[1])[:_MOST_UNTIMED])
    sidecar |= _calls_and_stack(sidecar, most)
    sidecar["last_stall"] = _stall(sidecar, most)
    if "groups" in sidecar:
        groups = [one for one in sidecar["groups"] if "issued" in one]
        sidecar |= {N_GROUPS: len(groups), "groups": counts.packed(_in_turn(groups, number, most))}
    stated = process._replace(sidecar=sidecar)._asdict()
    return {name: None if value != value else value for name, value in stated.items()}


def _process(stated: _Dict, counts: _Counts) -> ProcessPlace:
    sidecar = dict(stated["sidecar"])
    if "groups" in sidecar:
        sidecar["groups"] = counts.unpacked(sidecar["groups"])
        if int(sidecar[N_GROUPS]) <= len(sidecar["groups"]):
            del sidecar[N_GROUPS]
    if sidecar.get("last_stall"):
        sidecar["last_stall"]["groups"] = sidecar.get("groups", [])
    unknown = {name: math.nan for name in _FLOATS if stated[name] is None}
    return ProcessPlace(**{**stated, **unknown, "sidecar": sidecar})


def _options(options: _Dict, rank: int) -> _Dict:
    ranks = options.get("ranks")
    is_long = isinstance(ranks, list) and len(ranks) > _MOST_RANKS
    return {"hang_after": options.get("hang_after"), "ranks": [rank] if is_long else ranks}


def _calls_and_stack(entry: _Dict, most: int, stack: str = "idle_stack") -> _Dict:
    """Return of the open calls the oldest and the newest, and of a stack the innermost frames."""
    n = max(LEAST, most // 8)
    calls = entry.get("open_calls", [])
    few = calls if len(calls) <= n else [*calls[: n // 2], *calls[-n // 2 :]]
    lists = {"open_calls": few, stack: entry.get(stack, [])[:n]}
    return {name: kept for name, kept in lists.items() if name in entry}


def _stall(sidecar: _Dict, most: int) -> _Dict | None:
    """Return the standstill that a process is in, without the counts, which are those of the sidecar."""
    stall: _Dict | None = sidecar.get("last_stall")
    if not stall or stall.get("since_counter_ns") != sidecar.get("last_progress_counter_ns"):
        return None
    return {**stall, **_calls_and_stack(stall, most, "stack"), "groups": None}


def _in_turn(groups: Sequence[_Dict], number: int, most: int) -> list[_Dict]:
    """Return so many groups: those in which something is under way, and of the others some in turn."""
    if len(groups) <= most:
        return list(groups)
    pending = [i for i, one in enumerate(groups) if one.get("completed", one["issued"]) < one["issued"]]
    kept = pending[: most // 2]
    others = sorted({*range(len(groups))}.difference(kept))
    room = most - len(kept)
    first = number * room % len(others)
    return [groups[i] for i in kept + (others + others)[first : first + room]]


class _Counts:
    """What processes count in their groups: each name once, and numbers as differences.

    The ranks of a group have mostly begun as many of its collectives.

    Attributes:
        names: the name and size of each group.
    """

    def __init__(self, names: Iterable[Sequence[Any]] = ()) -> None:
        self.names = [list(name) for name in names]
        self._places: dict[tuple[Any, ...], int] = {}
        self._issued: dict[int, int] = {}

    def packed(self, groups: Iterable[_Dict]) -> list[list[int]]:
        """Return the place of each group after that of the one before, and its numbers."""
        rows, before = [], -1
        for one in groups:
            place = self._place(one.get("group"), one.get("size"))
            issued, completed = one["issued"], one.get("completed", one["issued"])
            rows.append((place - before, issued - self._issued.get(place, 0), issued - completed))
            self._issued[place], before = issued, place
        return [list(column) for column in zip(*rows, strict=True)]

    def unpacked(self, columns: Sequence[Sequence[int]]) -> list[_Dict]:
        """Return the groups that :meth:`packed` made these columns of."""
        groups, place = [], -1
        for step, beyond, pending in zip(*columns, strict=True):
            place += step
            issued = self._issued[place] = self._issued.get(place, 0) + beyond
            name, size = self.names[place]
            groups.append({"group": name, "size": size, "issued": issued, "completed": issued - pending})
        return groups

    def _place(self, *name: Any) -> int:
        if name not in self._places:
            self._places[name] = len(self.names)
            self.names.append(list(name))
        return self._places[name]
