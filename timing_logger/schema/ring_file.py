"""The file that holds a logger's records until they are written: its layout, and how it is read.

The native core writes it (``ring.h`` in ``csrc``); both have the places of the columns from
``record.py``. It is mapped into memory, so it holds every record whose call has returned, however the process
ends. Its writer keeps it locked (``flock``); who gets the lock knows that the writer is gone. It can be read
while its writer lives.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from timing_logger.schema.record import INFLIGHT, LAYOUT, NUMBERS, TEXTS, RawRecord, Record, unescape_text
from timing_logger.schema.sidecar import GroupProgress

if TYPE_CHECKING:
    import numpy.typing as npt

MAGIC = int.from_bytes(b"TLGRING4", "little")
_HEADER = struct.Struct("=Q6IQ3q4Q2q3072s")
_LISTS = 2  # of where the process stands
_NAME_WORDS = -(-len(TEXTS) // 4)
_SLOT_WORDS = 5 + len(NUMBERS) + _NAME_WORDS
_SPARE_WORDS = 8 - _SLOT_WORDS % 8
SLOT_BYTES = 8 * (_SLOT_WORDS + _SPARE_WORDS)
SLOT = [
    ("ticket", "u8"), ("checksum", "u8"), ("start_ns", "i8"), ("end_ns", "i8"),
    ("numbers", "i8", len(NUMBERS)), ("names", "u2", 4 * _NAME_WORDS), ("has", "u4"), ("zero", "u4"),
    ("spare", "u8", _SPARE_WORDS),
]  # fmt: skip
"""The fields of a slot, as a structured type of NumPy."""

MOST_RECORDS = 2**20
"""The longest queue that a ring holds."""

MOST_BYTES = 2**28
"""Twice the largest ring: what is larger is none."""

_MOST_SLOTS = MOST_RECORDS + 2**14  # a ring has some more than its queue holds, for what is being written
_MOST_NAMES = 2**14
# by how many records the header's ``head`` may be late: one for each thread that puts some
_MOST_BEHIND = 4096
_MOST_NAME_BYTES = 2**24

_FIRST_REAL = 12
HAS_END = 1 << 24
IS_GROUP = 1 << 25
ELSEWHERE = 1 << 26
_PLACE = struct.Struct("=2I")  # of a name: where it begins in the area of names, and its length

Part: TypeAlias = Callable[[int, int], bytes]
"""Returns so many bytes from a position in the file on; fewer where it ends."""


class Ring(NamedTuple):
    """What the file of a process holds.

    Attributes:
        timing_file: the path of the first part of the timing file that the records belong to.
        started_unix_ns: when the process's logger was started.
        wall_offset_ns: Unix time minus ``perf_counter_ns``.
        looked_ns: when the process last looked where it stands, in ns of ``perf_counter_ns``; 0 for never.
        progressed_ns: when, by then, it had last begun or recorded anything.
        records: the records that were not known to be written, in order.
        open_calls: the records of calls of the instrumentation that are open, and of all calls that were open
            when the process last looked, without an end; some of these may have ended since.
        groups: how far the process had come in each group of ranks when it last looked.
        elsewhere: how many more there were that no slot could hold; they are lost.
        damaged: how many slots are incomplete or do not fit their checksum.
    """

    timing_file: Path
    started_unix_ns: int
    wall_offset_ns: int
    looked_ns: int
    progressed_ns: int
    records: list[RawRecord]
    open_calls: list[RawRecord]
    groups: list[GroupProgress]
    elsewhere: int
    damaged: int


class NotARing(ValueError):
    """The file is no ring, or its header is damaged."""


def ring_header(descriptor: int) -> RingHeader:
    """Return the header of the ring in an open file.

    Raises:
        NotARing: the file is none, or its header is damaged.
        OSError: the file cannot be read.
    """
    return _header(os.pread(descriptor, _HEADER.size, 0))


def read_ring(descriptor: int) -> Ring:
    """Return what the ring in an open file holds.

    While its writer lives, records that it takes out meanwhile may count as damaged.

    Raises:
        NotARing: the file is none, or its header is damaged.
        OSError: the file cannot be read.
    """
    return ring_in(lambda at, n_bytes: os.pread(descriptor, n_bytes, at), os.fstat(descriptor).st_size)


def ring_in(part: Part, size: int) -> Ring:
    """Return what a ring holds, of which no more is read than that.

    Args:
        part: reads the file.
        size: the file's number of bytes.

    Raises:
        NotARing: the file is none, or its header is damaged.
    """
    header = _header(part(0, _HEADER.size))
    _check(header, size)
    names = _names(part, header)
    noted = _whole(_noted(part, header), names)
    is_group = noted["has"] & IS_GROUP != 0
    entered = _whole(_slots(part, header.first_open, header.open_bytes // SLOT_BYTES), names)
    waiting = _waiting(part, header)
    held = _whole(waiting, names, first=header.released)
    plain = held[held["has"] & ELSEWHERE == 0]
    return Ring(
        timing_file=header.timing_file,
        started_unix_ns=header.started_unix_ns,
        wall_offset_ns=header.wall_offset_ns,
        looked_ns=header.looked_ns,
        progressed_ns=header.progressed_ns,
        records=_records(plain, names),
        open_calls=list(_once([*_records(noted[~is_group], names), *_records(entered, names)])),
        groups=[
            GroupProgress(one.group, one.group_size or 0, one.seq or 0, one.peer or 0)
            for one in map(Record._make, _records(noted[is_group], names))
        ],
        elsewhere=len(held) - len(plain),
        damaged=len(waiting) - len(held),
    )


class RingHeader(NamedTuple):
    """The fields of ``Header`` in ``ring.h``, which explains them."""

    magic: int
    header_bytes: int
    names_bytes: int
    standing_bytes: int
    open_bytes: int
    slot_bytes: int
    layout: int
    slots: int
    started_unix_ns: int
    wall_offset_ns: int
    pid: int
    head: int  # as last stated by a thread: it may lag
    taken: int
    released: int
    standing: int
    looked_ns: int
    progressed_ns: int
    path: bytes

    @property
    def timing_file(self) -> Path:
        """The path of the first part of the timing file that the records belong to."""
        return Path(self.path.split(b"\0", 1)[0].decode(errors="surrogateescape"))

    @property
    def first_standing(self) -> int:
        """Where the lists begin of where the process stands, behind the names."""
        return self.header_bytes + self.names_bytes

    @property
    def first_open(self) -> int:
        """Where the calls begin that were entered before they were made."""
        return self.first_standing + self.standing_bytes

    @property
    def first_slot(self) -> int:
        """Where the records begin."""
        return self.first_open + self.open_bytes


def _header(content: bytes) -> RingHeader:
    if len(content) < _HEADER.size:
        raise NotARing("it is shorter than a header")
    header = RingHeader._make(_HEADER.unpack_from(content))
    if header.magic != MAGIC:
        raise NotARing("it does not begin as one")
    if header.head < header.released <= header.head + _MOST_BEHIND:
        header = header._replace(head=header.released)
    return header


def _check(header: RingHeader, size: int) -> None:
    """Raise NotARing unless a file of ``size`` bytes can be a ring with this header."""
    if header.layout != LAYOUT:
        raise NotARing("a version of timing_logger with other columns wrote it: recover it with that version")
    end = header.first_slot + header.slots * SLOT_BYTES
    if header.slot_bytes != SLOT_BYTES or not header.slots or end > size:
        raise NotARing("it is shorter than its header says")
    if header.slots > _MOST_SLOTS or header.names_bytes > _MOST_NAME_BYTES:
        raise NotARing("it states more records or names than any ring holds")
    if not header.released <= header.head <= header.released + header.slots or header.head >= 2**63:
        raise NotARing("its positions contradict each other")


def _names(part: Part, header: RingHeader) -> dict[int, str]:
    """Return the names by number, as far as they are whole: no record has another one."""
    area = part(header.header_bytes, header.names_bytes)
    n_names = min(_MOST_NAMES, len(area) // _PLACE.size)
    places = enumerate(_PLACE.iter_unpack(area[: n_names * _PLACE.size]))
    return {
        number: unescape_text(area[at : at + length].decode(errors="replace"))
        for number, (at, length) in places
        if 0 < at <= len(area) - length
    }


def _slots(part: Part, first: int, count: int) -> npt.NDArray[Any]:
    import numpy as np  # not in a training process, which only asks for the path

    found = part(first, count * SLOT_BYTES)
    return np.frombuffer(found, SLOT, len(found) // SLOT_BYTES) if found else np.empty(0, SLOT)


def _noted(part: Part, header: RingHeader) -> npt.NDArray[Any]:
    """Return the slots of the list that was made last of where the process stands."""
    most = header.standing_bytes // SLOT_BYTES // _LISTS
    count, which = divmod(header.standing, _LISTS)
    return _slots(part, header.first_standing + which * most * SLOT_BYTES, min(most, count))


def _waiting(part: Part, header: RingHeader) -> npt.NDArray[Any]:
    """Return the slots of the records that were not known to be written, from the oldest on."""
    import numpy as np

    stated, at = header.head - header.released, header.released % header.slots
    count = min(stated + _MOST_BEHIND, header.slots)
    before_the_end = min(count, header.slots - at)
    found = np.concatenate([
        _slots(part, header.first_slot + at * SLOT_BYTES, before_the_end),
        _slots(part, header.first_slot, count - before_the_end),
    ])  # fmt: skip
    tickets = np.arange(header.head, header.head + len(found) - stated, dtype=np.uint64) + np.uint64(1)
    newer = np.flatnonzero(found["ticket"][stated:] == tickets)
    return found[: stated + (int(newer[-1]) + 1 if len(newer) else 0)]


def _whole(slots: npt.NDArray[Any], names: dict[int, str], first: int = 0) -> npt.NDArray[Any]:
    """Return the slots, at positions from ``first`` on, that are complete and hold what was put into them."""
    import numpy as np

    positions = np.arange(first, first + len(slots), dtype=np.uint64)
    words = slots.view(np.uint64).reshape(len(slots), SLOT_BYTES // 8)[:, 2:_SLOT_WORDS]
    odd = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        factors = odd * (2 * np.arange(2, 2 + words.shape[1], dtype=np.uint64) + np.uint64(1))
        sums = (words * factors).sum(axis=1, dtype=np.uint64)
        sums = (sums ^ (sums >> np.uint64(32))) + positions + np.uint64(1)
    is_name = np.zeros(2**16, np.bool_)
    is_name[list(names)] = True
    known = is_name[slots["names"][:, : len(TEXTS)]].all(axis=1) | (slots["has"] & ELSEWHERE != 0)
    as_put = (slots["ticket"] == positions + np.uint64(1)) & (slots["checksum"] == sums)
    whole: npt.NDArray[Any] = slots[as_put & known]
    return whole


def _records(slots: npt.NDArray[Any], names: dict[int, str]) -> list[RawRecord]:
    """Return the records in whole slots. Column by column: a field of one slot costs a microsecond."""
    has = slots["has"].tolist()
    ends = [end if bits & HAS_END else None for end, bits in zip(slots["end_ns"].tolist(), has, strict=True)]
    columns: dict[str, Iterable[Any]] = {"start_ns": slots["start_ns"].tolist(), "end_ns": ends}
    for place, column in enumerate(NUMBERS):
        columns[column] = _numbers(slots["numbers"][:, place], has, place)
    for place, column in enumerate(TEXTS):
        columns[column] = [names[number] for number in slots["names"][:, place].tolist()]
    return list(zip(*(columns.get(name, repeat(None)) for name in Record._fields), strict=False))


def _numbers(held: npt.NDArray[Any], has: list[int], place: int) -> list[float | None]:
    """Return the values of one column of numbers, in which some may be floats, by their bits."""
    exists, is_real = 1 << place, 1 << _FIRST_REAL + place
    both = zip(held.tolist(), held.view("f8").tolist(), has, strict=True)
    return [(real if bits & is_real else number) if bits & exists else None for number, real, bits in both]


def _once(records: Iterable[RawRecord]) -> Iterator[RawRecord]:
    """Yield the records of open calls, each call once."""
    seen = set()
    for raw in records:
        record = Record._make(raw)
        call = record.operation, record.group, record.start_ns
        if call not in seen:
            seen.add(call)
            yield tuple(record._replace(status=INFLIGHT))
