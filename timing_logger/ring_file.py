"""The file that holds a logger's records until they are written: its layout, and how it is read.

The native core writes it (``timing_logger/_native/csrc/ring.h`` has the same layout). It is mapped into
memory, so it holds every record whose call has returned, however the process ends. Its writer keeps it locked
(``flock``); who gets the lock knows that the writer is gone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from timing_logger.record import RawRecord, unescape_text

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MAGIC = int.from_bytes(b"TLGRING1", "little")
HEADER = struct.Struct("=Q4IQ3q6Q3072s")
SLOT = [
    ("ticket", "u8"), ("checksum", "u8"), ("start_ns", "i8"), ("end_ns", "i8"), ("numbers", "i8", 6),
    ("names", "u2", 8), ("has", "u4"), ("zero", "u4"), ("spare", "u8", 3),
]  # fmt: skip
"""The fields of a slot, as a structured type of NumPy."""

SLOT_BYTES = 128
_SLOT_WORDS = 13
HAS_END = 1 << 6
ELSEWHERE = 1 << 15
_LENGTH = struct.Struct("=I")
_NUMBERS = 6


class Ring(NamedTuple):
    """What the file of a process that is gone holds.

    Attributes:
        timing_file: the path of the first part of the timing file that the records belong to.
        started_unix_ns: when the process's logger was started.
        wall_offset_ns: Unix time minus ``perf_counter_ns``.
        records: the records that were not known to be written, in order.
        open_calls: the records of the calls that were open when the process last looked, without an end.
        elsewhere: how many more there were that no slot could hold; they are lost.
        damaged: how many slots are incomplete or do not fit their checksum.
    """

    timing_file: Path
    started_unix_ns: int
    wall_offset_ns: int
    records: list[RawRecord]
    open_calls: list[RawRecord]
    elsewhere: int
    damaged: int


class NotARing(ValueError):
    """The file is no ring, or its header is damaged."""


def header_path(content: bytes) -> Path:
    """Return the path of the timing file that a ring's records belong to.

    Raises:
        NotARing: the file is none.
    """
    return Path(_path(_header(content)[-1]))


def read_ring(content: bytes) -> Ring:
    """Return what a ring holds.

    Args:
        content: the bytes of the file.

    Raises:
        NotARing: the file is none, or its header is damaged.
    """
    import numpy as np  # not in a training process, which only asks for the path

    (_, header_bytes, names_bytes, open_bytes, slot_bytes, n_slots, started_unix_ns, wall_offset_ns, _,
     head, _, released, n_names, _, opened, path) = _header(content)  # fmt: skip
    first_open = header_bytes + names_bytes
    first_slot = first_open + open_bytes
    if slot_bytes != SLOT_BYTES or not n_slots or first_slot + n_slots * slot_bytes > len(content):
        raise NotARing("it is shorter than its header says")
    if not released <= head <= released + n_slots or head >= 2**63:
        raise NotARing("its positions contradict each other")
    names = list(_names(content[header_bytes:first_open], n_names))
    positions = np.arange(released, head, dtype=np.uint64)
    slots = np.frombuffer(content, SLOT, n_slots, first_slot)[(positions % n_slots).astype(np.int64)]
    held = slots[_are_whole(slots, positions, len(names))]
    plain = held[held["has"] & ELSEWHERE == 0]
    n_lists = 2
    most = open_bytes // slot_bytes // n_lists
    lists = np.frombuffer(content, SLOT, n_lists * most, first_open).reshape(n_lists, most)
    calls = lists[opened % n_lists][: opened // n_lists]
    calls = calls[_are_whole(calls, np.arange(len(calls), dtype=np.uint64), len(names))]
    return Ring(
        timing_file=Path(_path(path)),
        started_unix_ns=started_unix_ns,
        wall_offset_ns=wall_offset_ns,
        records=[_record(slot, names) for slot in plain],
        open_calls=[_record(slot, names) for slot in calls],
        elsewhere=len(held) - len(plain),
        damaged=len(slots) - len(held),
    )


def _header(content: bytes) -> tuple[Any, ...]:
    if len(content) < HEADER.size:
        raise NotARing("it is shorter than a header")
    header = HEADER.unpack_from(content)
    if header[0] != MAGIC:
        raise NotARing("it does not begin as one")
    return header


def _path(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode(errors="surrogateescape")


def _names(area: bytes, count: int) -> Iterator[str]:
    at = 0
    for _ in range(count):
        if at + _LENGTH.size > len(area):
            return
        (length,) = _LENGTH.unpack_from(area, at)
        at += _LENGTH.size + length
        if at > len(area):
            return
        yield unescape_text(area[at - length : at].decode(errors="replace"))


def _are_whole(
    slots: npt.NDArray[Any], positions: npt.NDArray[np.uint64], n_names: int
) -> npt.NDArray[np.bool_]:
    """Return which slots were completed for their position, and hold what was put into them."""
    import numpy as np

    words = slots.view(np.uint64).reshape(len(slots), SLOT_BYTES // 8)[:, 2:_SLOT_WORDS]
    odd = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        factors = odd * (2 * np.arange(2, 2 + words.shape[1], dtype=np.uint64) + np.uint64(1))
        sums = (words * factors).sum(axis=1, dtype=np.uint64)
        sums = (sums ^ (sums >> np.uint64(32))) + positions + np.uint64(1)
    known = (slots["names"] < n_names).all(axis=1) | (slots["has"] & ELSEWHERE != 0)
    as_put = (slots["ticket"] == positions + np.uint64(1)) & (slots["checksum"] == sums)
    whole: npt.NDArray[np.bool_] = as_put & known
    return whole


def _record(slot: Any, names: list[str]) -> RawRecord:
    has = int(slot["has"])
    numbers = [int(slot["numbers"][i]) if has & 1 << i else None for i in range(_NUMBERS)]
    iteration, epoch, size, group_size, seq, peer = numbers
    layer, operation, phase, clock, group, thread, status, stream = (names[i] for i in slot["names"])
    end_ns = int(slot["end_ns"]) if has & HAS_END else None
    return (
        iteration, epoch, layer, operation, phase, size, int(slot["start_ns"]), end_ns, clock, group,
        group_size, seq, peer, thread, status, stream, None,
    )  # fmt: skip
