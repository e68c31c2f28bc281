"""What a timed block costs until the ring has gone round once: records meet memory that none has used."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from timing_logger import TimingLogger
from timing_logger.recording import ring

SIZES = (100_000, 400_000, 1_000_000)
TURN_CALLS = 2000
"""So few that the flush thread is at work, or is not, in a turn of the floor as in the next one of blocks."""

_WRITTEN_TURNS = 10
_REPEATS = 3


class FirstRound(NamedTuple):
    """Of rings of one size, all first rounds together.

    Attributes:
        floors, blocks: nanoseconds per call, a value per turn.
        made_ms: how long the slowest logger took to make.
    """

    floors: list[float]
    blocks: list[float]
    made_ms: float


def first_rounds(
    folder: Path, floor: Callable[[int], None], blocks: Callable[[TimingLogger, int], Callable[[], None]]
) -> dict[str, FirstRound]:
    """Measure rings of each size: in a file, and where there is no room for one, in the process's own memory.

    Args:
        folder: for the timing files.
        floor: makes so many calls of the floor.
        blocks: returns a function that times so many blocks.
    """
    found = {}
    for size in SIZES:
        for where, place in (("in a file", nullcontext()), ("in own memory", _without_file())):
            name = f"a timed block, maxsize={size:,}, {where}"
            with place:
                found[name] = _first_round(folder / name, size, floor, blocks)
    return found


def _without_file() -> AbstractContextManager[object]:
    return mock.patch.object(ring, "_folders", list)


def _first_round(
    folder: Path,
    size: int,
    floor: Callable[[int], None],
    blocks: Callable[[TimingLogger, int], Callable[[], None]],
) -> FirstRound:
    floors, timed, made = [], [], []
    for repeat in range(_REPEATS):
        begin_ns = time.perf_counter_ns()
        with TimingLogger(0, folder / str(repeat), maxsize=size, flush_interval=3600) as logger:
            made.append((time.perf_counter_ns() - begin_ns) / 1e6)
            loop = blocks(logger, TURN_CALLS)
            for turn in range(size // TURN_CALLS):
                if turn % _WRITTEN_TURNS == 0:
                    logger.flush_soon()
                floors.append(_ns_per_call(lambda: floor(TURN_CALLS)))
                timed.append(_ns_per_call(loop))
            if logger.stats.dropped:
                raise SystemExit("records were dropped: these figures are worthless")
    return FirstRound(floors, timed, max(made))


def _ns_per_call(loop: Callable[[], None]) -> float:
    start_ns = time.perf_counter_ns()
    loop()
    return (time.perf_counter_ns() - start_ns) / TURN_CALLS
