"""Keep the rows of communication of all ranks: analyses that compare ranks are given all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis.analysis import OfCommunication
from timing_logger.analysis.arrays import coded_text, dense_codes, each_text, processes_of
from timing_logger.analysis.columns import (
    COLUMNS_OF_COLLECTIVES,
    EPOCH_OF_STEP,
    MEANING_OF_EPOCHS,
    PROCESS_RESTARTS,
    ROW_OF_PROCESS,
    RUN_OF_RANK,
)
from timing_logger.analysis.epochs import Meaning, epochs_of
from timing_logger.analysis.operations import is_collective, is_communication, is_wait
from timing_logger.analysis.runs import runs_of
from timing_logger.analysis.table_types import Ints
from timing_logger.analysis.tables import opened
from timing_logger.reading.sources import compact, joined


class Wanted(NamedTuple):
    """What is kept of all rows.

    Attributes:
        columns: the columns, beside ``rank`` and ``incarnation``.
        others: each tells of an operation whether its rows are kept; those of collectives and of the waits
            for them always are.
    """

    columns: frozenset[str]
    others: tuple[Callable[[str], bool], ...]

    @classmethod
    def by(cls, analyses: Sequence[OfCommunication[Any]]) -> Wanted:
        """Return what these analyses want."""
        columns = frozenset(name for one in analyses for name in one.columns)
        return cls(columns, tuple(one.others for one in analyses))

    def keeps(self, operation: str) -> bool:
        """Tell whether rows of an operation are kept."""
        is_shared = is_collective(operation) or is_wait(operation)
        return is_shared or any(wants(operation) for wants in self.others)


class Kept(NamedTuple):
    """The rows of communication of some processes.

    Attributes:
        rank, incarnation: of each process that has rows, of whatever operation.
        meaning: what epochs are for in these processes.
        rows: a list with their table, which is taken out when it is joined with others.
    """

    rank: Ints
    incarnation: Ints
    meaning: Meaning
    rows: list[pd.DataFrame]


def n_communication(timings: pd.DataFrame) -> int:
    """Count the rows of communication, of whatever kind."""
    frame = opened(timings, ["operation"], by_rank=False, as_recorded=True)
    return int(each_text(coded_text(frame, "operation"), is_communication).sum())


def kept_of(timings: pd.DataFrame, wanted: Wanted) -> Kept:
    """Select the rows of communication of some processes, with what the rows of others tell of them."""
    frame = opened(timings, COLUMNS_OF_COLLECTIVES)
    process, epochs = processes_of(frame), epochs_of(frame)
    begins = np.flatnonzero(np.diff(process, prepend=-1))
    row = np.flatnonzero(each_text(coded_text(frame, "operation"), wanted.keeps))
    columns = [name for name in timings if name in {"rank", "incarnation", *wanted.columns}]
    rows = compact(timings[columns].iloc[row].reset_index(drop=True))
    rows = rows.assign(**{
        EPOCH_OF_STEP: epochs.of_row[row],
        PROCESS_RESTARTS: epochs.restarts[row],
        MEANING_OF_EPOCHS: np.full(len(row), int(epochs.meaning), np.int8),
    })  # fmt: skip
    if ROW_OF_PROCESS in wanted.columns:
        position = np.arange(len(process)) - np.repeat(begins, np.diff(begins, append=len(process)))
        rows[ROW_OF_PROCESS] = position[row]
    rank, incarnation = (frame[name].to_numpy()[begins] for name in ("rank", "incarnation"))
    return Kept(rank, incarnation, epochs.meaning, [rows])


def in_one_table(kept: Sequence[Kept]) -> pd.DataFrame:
    """Join the rows of all processes, and tell of each row which run it is of. This empties ``kept``."""
    rank, incarnation = (
        np.concatenate([getattr(one, name) for one in kept]) for name in ("rank", "incarnation")
    )
    run = runs_of(rank, incarnation)
    tables = [{str(name): rows[name] for name in rows} for one in kept for rows in [one.rows.pop()]]
    rows = joined(tables, list(tables[0]))
    place = dense_codes(np.append(rank, rows["rank"]), np.append(incarnation, rows["incarnation"]))
    run_of = np.zeros(int(place.max(initial=-1)) + 1, np.int32)
    run_of[place[: len(rank)]] = run
    rows[RUN_OF_RANK] = run_of[place[len(rank) :]]
    rows[MEANING_OF_EPOCHS] = np.full(len(rows), max(int(one.meaning) for one in kept), np.int8)
    return rows
