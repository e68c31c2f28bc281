"""Programs of random ranks: how long they last when they are lived through, and played again."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from account_rows import Row, row

from timing_logger.analysis.accounting.lines import AccountLines
from timing_logger.analysis.accounting.part import map_communication
from timing_logger.analysis.accounting.program import Program, program_of
from timing_logger.analysis.accounting.replay import Replay
from timing_logger.analysis.accounting.run import joined_rows, met, tied_rows
from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.arrays import Floats, numbers, processes_of
from timing_logger.analysis.rows.tables import opened


class Played(NamedTuple):
    program: Program
    lines: AccountLines

    def lasts_ms(self, own_s: Floats) -> float:
        return 1e3 * float(Replay(self.program).ends_s([own_s])[-1, 0])


def played(timings: pd.DataFrame) -> Played:
    frame = opened(timings, COLUMNS_OF["account"])
    rows, lines = joined_rows([map_communication(frame, processes_of(frame), np.full(len(frame), -1))])
    run = tied_rows(met(rows, lines, None, None))
    return Played(program_of(run, lines, 0 * numbers(rows, "start_counter"), 1), lines)


class Meeting(NamedTuple):
    """A collective of some ranks, or a message; with how long each took and how late each left."""

    members: tuple[int, ...]
    is_message: bool
    took_ms: float
    late_ms: tuple[float, ...]


def random_program(seed: int) -> tuple[int, list[Meeting], list[list[float]]]:
    """Return the number of ranks, their meetings, and how long each rank works before each."""
    rng = random.Random(seed)
    n = rng.randint(2, 5)
    meetings = []
    for _ in range(rng.randint(2, 30)):
        members = tuple(sorted(rng.sample(range(n), rng.randint(2, n))))
        is_message = len(members) == 2 and rng.random() < 0.5
        late_ms = tuple(rng.choice([0.0, rng.uniform(0, 0.5)]) for _ in members)
        meetings.append(Meeting(members, is_message, rng.uniform(0.1, 2), late_ms))
    works_ms = [[rng.choice([0.0, rng.uniform(0, 9)]) for _ in range(n)] for _ in range(len(meetings) + 1)]
    return n, meetings, works_ms


def lived(n: int, meetings: list[Meeting], works_ms: list[list[float]]) -> tuple[float, list[Row]]:
    """Live through a program: how long it lasts in ms, and its rows."""
    now, rows = [0.0] * n, []
    counts: dict[Any, int] = {}
    for meeting, before_ms in zip(meetings, works_ms, strict=False):
        starts = [now[rank] + before_ms[rank] for rank in meeting.members]
        for rank, begin in zip(meeting.members, starts, strict=True):
            rows.append(row(rank, "work", now[rank], begin))
        kind = meeting.members, meeting.is_message
        group = {"group": "ranks " + ",".join(map(str, meeting.members)), "group_size": len(meeting.members)}
        group["seq"] = counts[kind] = counts.get(kind, -1) + 1
        done = (starts[0] if meeting.is_message else max(starts)) + meeting.took_ms
        for i, (rank, late_ms) in enumerate(zip(meeting.members, meeting.late_ms, strict=True)):
            name = ("SEND", "RECV")[i] if meeting.is_message else "ALLREDUCE"
            peer = {"peer": 1 - i} if meeting.is_message else {}
            leaves = starts[i] if name == "SEND" else max(starts[i], done)
            now[rank] = leaves + late_ms + (0.01 if name == "SEND" else 0.0)
            rows.append(row(rank, name, starts[i], now[rank], **group, **peer))
    for rank in range(n):
        rows.append(row(rank, "work", now[rank], now[rank] + works_ms[-1][rank]))
        now[rank] += works_ms[-1][rank]
    return max(now), rows
