"""Write a digest in few bytes, and read it again: what it says of processes in JSON, then its rows.

All is compressed, so that a step like the one before costs little more than its durations.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from timing_logger.analysis.hangs.sidecar_state import N_GROUPS
from timing_logger.errors import TimingLoggerError
from timing_logger.live.digest import CounterRows, Digest, ProcessPlace
from timing_logger.live.packed_rows import packed_arrays, packed_rows, unpacked_arrays, unpacked_rows
from timing_logger.live.sampled_steps import thinned
from timing_logger.reading.host_rows import COUNTED
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
            name = one.get("group"), one.get("size")
            place = self._places.setdefault(name, len(self._places))
            if place == len(self.names):
                self.names.append(list(name))
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


FORMAT = 3

_MOST_BYTES = 2**26  # of a digest when it is unpacked
_LEVEL = 9  # of compression: some ms for 10 kB, every few seconds
_SHARE = 0.75  # of the bytes: for what is said of processes, where there are rows, too
_END_OF_JSON = b"\n"


class DamagedDigest(TimingLoggerError):
    """These bytes are no digest that can be read."""


def packed_within(digest: Digest, most_bytes: int) -> bytes:
    """Return a digest in at most so many bytes: of fewer steps, where it is too large.

    What it says of processes is less where that takes more than three quarters, or more than all if there are
    no rows. Each process is in it always, so that a digest of very few bytes is larger.

    Args:
        digest: the digest.
        most_bytes: how large it may be.
    """
    most = _most_within(digest, most_bytes * _SHARE if len(digest.rows) else most_bytes)
    data = packed(digest, most)
    while len(data) > most_bytes and len(digest.rows):
        digest = thinned(digest)
        data = packed(digest, most)
    return data


def _most_within(digest: Digest, most_bytes: float) -> int:
    """Return for how many groups of a process there is room in so many bytes; ``LEAST`` if for fewer."""
    without_rows, most = digest._replace(rows=digest.rows.only(slice(0))), MOST
    while most > LEAST and len(packed(without_rows, most)) > most_bytes:
        most //= 2
    return most


def packed(digest: Digest, most: int = MOST) -> bytes:
    """Return a digest in few bytes, without the last rows of processes.

    Args:
        digest: the digest.
        most: of how many groups of a process it tells.
    """
    (rows, data), (counters, of_counters) = packed_rows(digest.rows), packed_counters(digest.counters)
    content = {
        "format": FORMAT,
        "source": digest.source,
        "number": digest.number,
        "unix_s": digest.unix_s,
        "every": digest.every,
        "of": plain(digest.processes, digest.number, most),
        "rows": rows,
        "counters": counters,
        "bytes": len(data),
    }
    stated = json.dumps(content, separators=(",", ":")).encode()
    return zlib.compress(stated + _END_OF_JSON + data + of_counters, _LEVEL)


def unpacked(data: bytes) -> Digest:
    """Return the digest that :func:`packed` made these bytes of.

    Raises:
        DamagedDigest: it made them of none.
    """
    try:
        stated, _, numbers = zlib.decompressobj().decompress(data, _MOST_BYTES).partition(_END_OF_JSON)
        content = json.loads(stated)
        if content["format"] != FORMAT:
            raise DamagedDigest(f"This digest has format {content['format']!r}; {FORMAT} can be read.")
        processes = processes_of(content["of"])
        rows = unpacked_rows(content["rows"], numbers)
        counters = unpacked_counters(content["counters"], numbers[content["bytes"] :])
        facts = (str(content["source"]), int(content["number"]), float(content["unix_s"]))
        return Digest(*facts, int(content["every"]), processes, rows, (), counters)
    except (zlib.error, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise DamagedDigest(f"These bytes are no digest: {error!r}.") from None


# -- what hosts counted, in few bytes --------------------------------------------------------------------


_UNITS = 1000.0  # files of counters have no more decimals


def packed_counters(rows: CounterRows) -> tuple[dict[str, Any], bytes]:
    """Return what JSON can hold of rows, and their numbers in bytes, which are yet to be compressed."""
    known = ~np.isnan(rows.values)
    arrays = [np.diff(rows.rank, prepend=0), rows.incarnation]
    columns = np.flatnonzero(known.any(axis=0)).tolist()
    for column in columns:
        values = np.rint(rows.values[known[:, column], column] * _UNITS).astype(np.int64)
        arrays += [np.diff(values, prepend=0), np.packbits(known[:, column]).astype(np.int64)]
    sizes, data = packed_arrays(arrays)
    return {"counted": [COUNTED[column] for column in columns], "sizes": sizes}, data


def unpacked_counters(stated: Mapping[str, Any], data: bytes) -> CounterRows:
    """Return the rows that :func:`packed_counters` made this of; counters that are not known are left out.

    Raises:
        ValueError, KeyError, TypeError, IndexError: it made it of none.
    """
    counted = list(stated["counted"])
    arrays = iter(unpacked_arrays(stated["sizes"], data, 2 + 2 * len(counted)))
    rank, incarnation = np.cumsum(next(arrays)), next(arrays)
    values = np.full((len(rank), len(COUNTED)), np.nan)
    for name in counted:
        numbers, bits = next(arrays), next(arrays)
        if name in COUNTED:
            known = np.unpackbits(bits.astype(np.uint8), count=len(rank)) == 1
            values[known, COUNTED.index(name)] = np.cumsum(numbers) / _UNITS
    return CounterRows(rank, incarnation, values)
