"""Analyse all collectives of a run for a report."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from timing_logger.analysis.collectives.bandwidth import bandwidth_of
from timing_logger.analysis.collectives.compressed_rows import measured_with_work
from timing_logger.analysis.collectives.compression import compression_of, moves_bytes_or_is_work
from timing_logger.analysis.collectives.matching import Instances, find_instances
from timing_logger.analysis.collectives.problems import STATES, find_problems, reasons_for, states
from timing_logger.analysis.collectives.waits import (
    Arrivals,
    clock_free_wait_ms,
    clock_violations,
    complete_among,
)
from timing_logger.analysis.rows.analysis import COLUMNS_OF, OfCommunication
from timing_logger.analysis.rows.epochs import epochs_of
from timing_logger.analysis.rows.table_types import Frame, Ints
from timing_logger.analysis.rows.tables import new_column, nullable_integers, opened, taken

LOOKS_AT = frozenset({*COLUMNS_OF["waits"], *COLUMNS_OF["compression"]})
"""The columns of timings that the analysis of collectives needs."""


@dataclass(frozen=True)
class Collectives:
    """What a report says of the collectives of a run.

    Attributes:
        bandwidth, compression: as the analyses of that name return them.
        waits: a row for each part of a collective of which ``clock_free_wait_ms`` is known, with ``rank``,
            ``incarnation``, ``epoch`` and ``iteration``, in integers of as few bytes as hold them.
        violations: the number of rows that ended before all ranks had arrived that they needed.
        flawed: the number of collectives of each state and reason, except "complete"; most first.
    """

    bandwidth: pd.DataFrame
    compression: pd.DataFrame
    waits: pd.DataFrame
    violations: int
    flawed: dict[tuple[str, str], int]


def collectives(timings: pd.DataFrame) -> Collectives:
    """Analyse all collectives of a table of timings, which are matched once."""
    frame = opened(timings, LOOKS_AT)
    parts = find_instances(frame)
    problems = find_problems(frame, parts)
    complete = complete_among(parts, problems)
    arrivals = Arrivals.of(frame, complete)
    measured, sends = measured_with_work(frame, complete)
    return Collectives(
        bandwidth=bandwidth_of(frame, measured).to_native(),
        compression=compression_of(frame, measured, sends).to_native(),
        waits=_waits(frame, complete, arrivals),
        violations=int(clock_violations(complete, arrivals).sum()),
        flawed=_flawed(frame, parts, problems),
    )


def _waits(frame: Frame, parts: Instances, arrivals: Arrivals) -> pd.DataFrame:
    wait_ms = clock_free_wait_ms(parts, arrivals.elapsed_s * 1e3, arrivals.counts)
    known = np.flatnonzero(~np.isnan(wait_ms))
    row = parts.row[known]
    epoch = epochs_of(frame).of_row
    table = taken(frame, ["rank", "incarnation", "iteration"], row).with_columns(
        nullable_integers(frame, "epoch", epoch[row]),
        new_column(frame, "clock_free_wait_ms", wait_ms[known]),
    )
    found: pd.DataFrame = table.to_native()
    for name in ("rank", "incarnation", "epoch", "iteration"):
        found[name] = pd.to_numeric(found[name], downcast="integer")
    return found


def _flawed(frame: Frame, parts: Instances, problems: Ints) -> dict[tuple[str, str], int]:
    reasons, reason_of = reasons_for(frame, parts, problems)
    pairs = (states(problems) * len(reasons) + reason_of)[problems > 0]
    counts: dict[tuple[str, str], int] = {}
    for pair in np.flatnonzero(np.bincount(pairs)) if len(pairs) else ():
        state, reason = divmod(int(pair), len(reasons))
        counts[STATES[state], reasons[reason]] = int((pairs == pair).sum())
    return dict(sorted(counts.items(), key=_most_first))


def _most_first(counted: tuple[tuple[str, str], int]) -> tuple[int, tuple[str, str]]:
    why, count = counted
    return -count, why


COLLECTIVES = OfCommunication(LOOKS_AT, collectives, moves_bytes_or_is_work)
"""The analysis that makes :class:`Collectives`."""
