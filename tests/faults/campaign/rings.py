"""Fuzzes the reader of rings: damage costs records at most, and adds none that was not recorded. (P5 to P7)

A folder holds the files of a killed process, with its ring. Half of the inputs are read as if the process
lived, which keeps its ring locked.
"""

from __future__ import annotations

import fcntl
import os
import random
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from processes import run_python

from campaign.fuzzing import Reader, fuzz
from campaign.trial import Trial, Untried
from timing_logger.schema.ring_file import SLOT_BYTES

_RECORDS = 60
_KILLED = f"""
import os, signal, sys, time
from pathlib import Path
from timing_logger import TimingLogger
from timing_logger.schema.ring_file import read_ring
class Group:
    size, collectives = 4, {_RECORDS}
group = Group()
logger = TimingLogger(0, sys.argv[1], flush_interval=3600, ring_dir=sys.argv[1], maxsize=1000)
logger.add_group(group, "world")
for i in range({_RECORDS}):
    logger.record_timing("ALLREDUCE", 1.0, "layer1", 1024, "train", i, 0, group="world", group_size=4, seq=i)
logger.record_timing("ALLREDUCE", 1.0, message_size=10**30)  # which no slot can hold
logger.record_mpi_operation("BARRIER", seq={_RECORDS}, group="world", group_size=4).__enter__()
(ring,) = Path(sys.argv[1]).glob("*.ring")
descriptor = os.open(ring, os.O_RDONLY)
while not read_ring(descriptor).open_calls:
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""
_FIRST_SLOT = 4096 + 2**20 + (2 * 128 + 64) * SLOT_BYTES  # after header, names, and the lists of open calls
_USED = _FIRST_SLOT + 80 * SLOT_BYTES


def fuzz_rings(trial: Trial) -> str:
    """Fuzz the reader of rings, of processes that are gone and of such that run."""
    return fuzz(trial, Reader("*.ring", _damaged, _read, _leave))


def _leave(folder: Path) -> None:
    from timing_logger.recording.cores import chosen as core

    if core.NAME != "native":
        raise Untried("the Python core has no ring")
    run_python(_KILLED, folder)
    assert list(folder.glob("*.ring"))


def _read(logs: Path, chance: random.Random) -> None:
    from timing_logger import read_timings
    from timing_logger.analysis import hang
    from timing_logger.reading import recovery

    recovery._PATIENCE_S = 0.0  # for another reader: here, nobody lets go of the lock
    lives = chance.random() < 0.5
    (ring,) = logs.glob("*.ring")
    descriptor = os.open(ring, os.O_RDWR)
    try:
        if lives:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        rows = read_timings(logs)
        hang(rows, now_unix_s=time.time())
    finally:
        os.close(descriptor)
    found = rows["iteration"].dropna().tolist()
    assert set(found) <= set(range(_RECORDS)), "a row that was not recorded"
    assert len(set(found)) == len(found), "a row twice"
    assert not (lives and len(rows)), "rows of a process that runs were written by another"


def _damaged(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """Return a ring after one to six changes, nearly all of them where it is in use."""
    content = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 6))):
        if content:
            chance.choice(_WAYS)(content, others, chance)
    return bytes(content)


def _place(content: bytearray, chance: random.Random) -> int:
    area = chance.choice((150, 150, 4096, 8192, _USED, len(content)))
    return chance.randrange(min(area, len(content)))


def _flip(content: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    content[_place(content, chance)] ^= 1 << chance.randrange(8)


def _number(content: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    """Write another number into a field of 8 bytes."""
    at = _place(content, chance) // 8 * 8
    value = chance.choice((0, 1, 2, 63, 2**15, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1))
    content[at : at + 8] = struct.pack("<Q", value)


def _cut(content: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    del content[_place(content, chance) :]


def _scramble(content: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    at, length = _place(content, chance), chance.choice((8, 128, 1024))
    content[at : at + length] = chance.randbytes(min(length, len(content) - at))


def _half_written(content: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    """Put back a part of a slot, as where a process was killed while it wrote."""
    first = _FIRST_SLOT + SLOT_BYTES * chance.randrange(_RECORDS)
    length = 8 * chance.randrange(SLOT_BYTES // 8)
    content[first : first + length] = bytes(length)


def _spliced(content: bytearray, others: Sequence[bytes], chance: random.Random) -> None:
    other, at = chance.choice(others), _place(content, chance)
    length = chance.choice((8, 128, 4096, 2**20))
    content[at : at + length] = other[at : at + length]


_WAYS: tuple[Callable[[bytearray, Sequence[bytes], random.Random], None], ...] = (
    _flip, _flip, _number, _number, _number, _cut, _scramble, _half_written, _spliced,
)  # fmt: skip
