"""What is read of a ring's file, and refused: files made by hand, to the letter of ``ring.h``."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from timing_logger.schema.record import INFLIGHT, LAYOUT, NUMBERS, TEXTS, Record
from timing_logger.schema.ring_file import SLOT_BYTES, NotARing, Ring, read_ring, ring_header, ring_in
from timing_logger.schema.sidecar import GroupProgress

HEADER = struct.Struct("=Q6IQ3q4Q2q3072s")
HEADER_BYTES, NAMES_BYTES, MOST_NAMES = 4096, 2**20, 16384
NAME_WORDS = -(-len(TEXTS) // 4)
SLOT_WORDS = 5 + len(NUMBERS) + NAME_WORDS
IS_GROUP, ELSEWHERE = 1 << 25, 1 << 26
ODD = 0x9E3779B97F4A7C15

NAMES = {
    1: "layer1",
    2: "ALLREDUCE",
    3: "dense",
    4: "host",
    5: "world",
    6: "main",
    7: "ok",
    8: "",
    9: r"a\\b",
}
USUAL = {
    "layer_name": 1, "operation": 2, "phase": 3, "clock": 4, "group": 5, "thread": 6, "status": 7,
    "stream": 8,
}  # fmt: skip
FILE = "/logs/timing-rank0.csv"


def slot(position: int, start_ns: int, end_ns: int | None = None, has: int = 0, **values: Any) -> bytes:
    """A whole slot: of numbers as they are, and of names by number."""
    numbers = []
    for place, column in enumerate(NUMBERS):
        value = values.get(column)
        if value is not None:
            has |= 1 << place
        if isinstance(value, float):
            has |= 1 << 12 + place
            (value,) = struct.unpack("q", struct.pack("d", value))
        numbers.append(value or 0)
    if end_ns is not None:
        has |= 1 << 24
    names = [values.get(column, USUAL[column]) for column in TEXTS]
    names += [0] * (4 * NAME_WORDS - len(names))
    content = struct.pack(
        f"=qq{len(numbers)}q{len(names)}HII", start_ns, end_ns or 0, *numbers, *names, has, 0
    )
    words = struct.unpack(f"={SLOT_WORDS - 2}Q", content)
    total = sum(word * (ODD * (2 * at + 1)) for at, word in enumerate(words, 2)) % 2**64
    checksum = ((total ^ total >> 32) + position + 1) % 2**64
    return struct.pack("=QQ", position + 1, checksum) + content + bytes(8 * (8 - SLOT_WORDS % 8))


EMPTY = bytes(SLOT_BYTES)


def names_area() -> bytes:
    area, at = bytearray(NAMES_BYTES), 8 * MOST_NAMES
    for name, text in NAMES.items():
        encoded = text.encode()
        area[at : at + len(encoded)] = encoded
        area[8 * name : 8 * name + 8] = struct.pack("=2I", at, len(encoded))
        at += len(encoded)
    return bytes(area)


AREA = names_area()


def header(**changes: Any) -> bytes:
    stated = {
        "magic": int.from_bytes(b"TLGRING4", "little"), "header_bytes": HEADER_BYTES,
        "names_bytes": NAMES_BYTES, "standing_bytes": 4 * SLOT_BYTES, "open_bytes": 2 * SLOT_BYTES,
        "slot_bytes": SLOT_BYTES, "layout": LAYOUT, "slots": 4, "started_unix_ns": 11, "wall_offset_ns": 12,
        "pid": 13, "head": 0, "taken": 0, "released": 0, "standing": 0, "looked_ns": 14,
        "progressed_ns": 15, "path": FILE.encode(),
    }  # fmt: skip
    return HEADER.pack(*{**stated, **changes}.values()).ljust(HEADER_BYTES, b"\0")


def file(
    *slots: bytes, noted: tuple[bytes, ...] = (EMPTY,) * 4, entered: tuple[bytes, ...] = (EMPTY,) * 2,
    **changes: Any,
) -> bytes:  # fmt: skip
    """A ring of four slots, with two lists of two calls of where the process stood, and two calls entered."""
    room = [*slots, *(EMPTY,) * (4 - len(slots))]
    return b"".join([header(**changes), AREA, *noted, *entered, *room])


def read(content: bytes, size: int | None = None) -> Ring:
    return ring_in(lambda at, n_bytes: content[at : at + n_bytes], len(content) if size is None else size)


def starts(records: list[Any]) -> list[int]:
    return [Record._make(record).start_ns for record in records]


# -- what is held ----------------------------------------------------------------------------------------


def test_a_record_comes_back_with_its_numbers_names_and_end() -> None:
    values = {"iteration": 3, "message_size_bytes": 8, "seq": -1, "work": 0.5, "peer": 0}
    ring = read(file(slot(0, 100, 130, phase=9, **values), head=1))
    assert ring.records == [
        Record(3, None, "layer1", "ALLREDUCE", r"a\b", 8, 100, 130, "host", "world", None, -1, 0, "main",
               "ok", "", None, 0.5),
    ]  # fmt: skip
    assert type(ring.records[0]) is tuple


def test_a_record_without_an_end_has_none() -> None:
    assert Record._make(read(file(slot(0, 100), head=1)).records[0]).end_ns is None


def test_the_header_says_whose_records_they_are() -> None:
    ring = read(file())
    assert (ring.timing_file, ring.started_unix_ns, ring.wall_offset_ns) == (Path(FILE), 11, 12)
    assert (ring.looked_ns, ring.progressed_ns) == (14, 15)
    assert ring[5:] == ([], [], [], 0, 0)


def test_what_waits_is_read_from_the_oldest_on_around_the_end() -> None:
    slots = (slot(8, 8), slot(5, 5), slot(6, 6), slot(7, 7))
    ring = read(file(*slots, released=6, head=9))
    assert (starts(ring.records), ring.damaged) == ([6, 7, 8], 0)


def test_a_full_ring_is_read_as_a_whole() -> None:
    slots = (slot(4, 4), slot(5, 5), slot(2, 2), slot(3, 3))
    assert starts(read(file(*slots, released=2, head=6)).records) == [2, 3, 4, 5]


def test_records_beyond_what_the_header_says_are_found_by_their_tickets() -> None:
    slots = (slot(0, 0), slot(1, 1), EMPTY, slot(3, 3))
    ring = read(file(*slots, head=1))
    assert (starts(ring.records), ring.damaged) == ([0, 1, 3], 1)
    assert starts(read(file(*slots[:2], head=1)).records) == [0, 1]
    assert starts(read(file(slot(0, 0), slot(1, 1), released=1, head=2)).records) == [1], "0 was written"


def test_the_last_record_is_found_with_all_slots_beyond_what_the_header_says() -> None:
    slots = [slot(position, position) for position in range(4)]
    assert starts(read(file(*slots)).records) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "damaged",
    [
        slot(1, 1)[:16] + b"\7" + slot(1, 1)[17:],
        slot(5, 1),
        slot(1, 1, layer_name=99),
        slot(1, 1, stream=0),
        EMPTY,
    ],
    ids=["another word", "of another lap", "an unknown name", "a lacking name", "never filled"],
)
def test_a_slot_that_is_not_whole_is_counted_and_its_neighbours_are_read(damaged: bytes) -> None:
    ring = read(file(slot(0, 0), damaged, slot(2, 2), head=3))
    assert (starts(ring.records), ring.damaged, ring.elsewhere) == ([0, 2], 1, 0)


def test_what_no_slot_could_hold_is_counted_even_without_names() -> None:
    ring = read(file(slot(0, 0), slot(1, 1, has=ELSEWHERE, layer_name=99), head=2))
    assert (starts(ring.records), ring.damaged, ring.elsewhere) == ([0], 0, 1)


# -- where the process stands ----------------------------------------------------------------------------


@pytest.mark.parametrize("which", [0, 1])
def test_the_list_that_was_made_last_tells_of_open_calls_and_of_groups(which: int) -> None:
    group = slot(1, 0, has=IS_GROUP, group_size=4, seq=18, peer=17)
    made, other = (slot(0, 100), group), (slot(0, 200), slot(1, 300))
    ring = read(file(noted=(made + other, other + made)[which], standing=2 * 2 + which))
    (call,) = map(Record._make, ring.open_calls)
    assert (call.start_ns, call.operation, call.end_ns, call.status) == (100, "ALLREDUCE", None, INFLIGHT)
    assert ring.groups == [GroupProgress("world", 4, 18, 17)]


def test_of_a_list_no_more_is_read_than_it_holds() -> None:
    noted = (slot(0, 100), slot(1, 200), slot(2, 300), EMPTY)
    assert starts(read(file(noted=noted, standing=1 * 2)).open_calls) == [100]
    assert starts(read(file(noted=noted, standing=3 * 2)).open_calls) == [100, 200]


def test_a_group_whose_numbers_lack_has_begun_nothing() -> None:
    noted = (slot(0, 0, has=IS_GROUP), EMPTY, EMPTY, EMPTY)
    assert read(file(noted=noted, standing=2)).groups == [GroupProgress("world", 0, 0, 0)]


def test_a_call_that_was_entered_and_noted_is_one_call() -> None:
    noted = (slot(0, 100), EMPTY, EMPTY, EMPTY)
    ring = read(file(noted=noted, standing=2, entered=(slot(0, 100), slot(1, 100, operation=3))))
    calls = [(Record._make(call).operation, Record._make(call).start_ns) for call in ring.open_calls]
    assert calls == [("ALLREDUCE", 100), ("dense", 100)]


# -- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"magic": 1}, "does not begin as one"),
        ({"layout": LAYOUT ^ 1}, "with other columns wrote it"),
        ({"slot_bytes": SLOT_BYTES + 8}, "shorter than its header says"),
        ({"slots": 0}, "shorter than its header says"),
        ({"slots": 5}, "shorter than its header says"),
        ({"released": 1, "head": 6}, "positions contradict"),
        ({"released": 4097}, "positions contradict"),
        ({"released": 2**63, "head": 2**63}, "positions contradict"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_header_that_no_ring_has_is_refused(changes: dict[str, int], why: str) -> None:
    with pytest.raises(NotARing, match=why):
        read(file(**changes))


@pytest.mark.parametrize(
    ("changes", "is_one"),
    [
        ({"slots": 2**20 + 2**14}, True),
        ({"slots": 2**20 + 2**14 + 1}, False),
        ({"names_bytes": 2**24}, True),
        ({"names_bytes": 2**24 + 1}, False),
    ],
)
def test_no_ring_has_more_records_or_names_than_these(changes: dict[str, int], is_one: bool) -> None:
    content = header(**changes)
    if is_one:
        assert read(content, 2**30).records == []
    else:
        with pytest.raises(NotARing, match="more records or names than any ring holds"):
            read(content, 2**30)


def test_a_file_that_is_shorter_than_a_header_is_none() -> None:
    with pytest.raises(NotARing, match="shorter than a header"):
        read(header()[: HEADER.size - 1])


def test_a_thread_may_be_late_in_saying_how_far_it_is_by_as_much_as_there_are_threads() -> None:
    assert read(file(released=4096)).records == []
    assert starts(read(file(slot(4, 4), released=4, head=1)).records) == [4]


def test_an_open_file_is_read_from_its_begin(tmp_path: Path) -> None:
    path = tmp_path / "a.ring"
    path.write_bytes(file(slot(0, 100), head=1))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        assert starts(read_ring(descriptor).records) == [100]
        assert (ring_header(descriptor).pid, ring_header(descriptor).timing_file) == (13, Path(FILE))
    finally:
        os.close(descriptor)


def test_a_name_may_end_where_the_area_of_names_does() -> None:
    content = bytearray(file(slot(0, 100), head=1))
    content[HEADER_BYTES + 8 * 3 : HEADER_BYTES + 8 * 4] = struct.pack("=2I", NAMES_BYTES - 3, 3)
    content[HEADER_BYTES + NAMES_BYTES - 3 : HEADER_BYTES + NAMES_BYTES] = b"end"
    (found,) = map(Record._make, read(bytes(content)).records)
    assert found.phase == "end"


@pytest.mark.parametrize("other", [{"group": 3}, {"operation": 1}])
def test_calls_of_another_group_or_operation_that_began_at_the_same_instant_are_two(
    other: dict[str, int],
) -> None:
    ring = read(file(entered=(slot(0, 100), slot(1, 100, **other))))
    assert starts(ring.open_calls) == [100, 100]
