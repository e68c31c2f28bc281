"""Analyse all collectives of a run for a report, in parts: the collectives of each block are matched once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from timing_logger.analysis.analysis import Analysis
from timing_logger.analysis.collectives.bandwidth import bandwidth_in
from timing_logger.analysis.collectives.compression import compression_in, moves_bytes_or_is_work, with_work
from timing_logger.analysis.collectives.matching import Instances, find_instances
from timing_logger.analysis.collectives.problems import STATES, find_problems, reasons_for, states
from timing_logger.analysis.collectives.transfer_samples import MeasuredPart, joined_measured
from timing_logger.analysis.collectives.waits import (
    Arrivals,
    clock_free_wait_ms,
    clock_violations,
    complete_among,
)
from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.epochs import epochs_of
from timing_logger.analysis.part_tables import Columns, compact_columns, joined_columns
from timing_logger.analysis.tables import Frame, Ints, new_column, nullable_integers, opened, taken

if TYPE_CHECKING:
    import pandas as pd


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


class _Part(NamedTuple):
    measured: MeasuredPart
    waits: Columns
    violations: int
    flawed: Counter[tuple[str, str]]


def _map(timings: pd.DataFrame) -> _Part:
    frame = opened(timings, LOOKS_AT)
    parts = find_instances(frame)
    problems = find_problems(frame, parts)
    complete = complete_among(parts, problems)
    arrivals = Arrivals.of(frame, complete)
    return _Part(
        measured=with_work(frame, complete),
        waits=_waits(frame, complete, arrivals),
        violations=int(clock_violations(complete, arrivals).sum()),
        flawed=_flawed(frame, parts, problems),
    )


def _waits(frame: Frame, parts: Instances, arrivals: Arrivals) -> Columns:
    import pandas as pd

    wait_ms = clock_free_wait_ms(parts, arrivals.elapsed_s * 1e3, arrivals.counts)
    known = np.flatnonzero(~np.isnan(wait_ms))
    row = parts.row[known]
    epoch = epochs_of(frame).of_row
    table = taken(frame, ["rank", "incarnation", "iteration"], row).with_columns(
        nullable_integers(frame, "epoch", epoch[row]),
        new_column(frame, "clock_free_wait_ms", wait_ms[known]),
    )
    integers = ["rank", "incarnation", "epoch", "iteration"]
    columns = compact_columns(table.to_native())
    return columns | {name: pd.to_numeric(columns[name], downcast="integer") for name in integers}


def _flawed(frame: Frame, parts: Instances, problems: Ints) -> Counter[tuple[str, str]]:
    reasons, reason_of = reasons_for(frame, parts, problems)
    pairs = (states(problems) * len(reasons) + reason_of)[problems > 0]
    counts: Counter[tuple[str, str]] = Counter()
    for pair in np.flatnonzero(np.bincount(pairs)) if len(pairs) else ():
        state, reason = divmod(int(pair), len(reasons))
        counts[STATES[state], reasons[reason]] = int((pairs == pair).sum())
    return counts


def _reduce(parts: Sequence[_Part]) -> Collectives:
    kinds, measured = joined_measured([part.measured for part in parts])
    flawed: Counter[tuple[str, str]] = Counter()
    for part in parts:
        flawed.update(part.flawed)
    return Collectives(
        bandwidth=bandwidth_in(kinds, measured),
        compression=compression_in(kinds, measured),
        waits=joined_columns([part.waits for part in parts]),
        violations=sum(part.violations for part in parts),
        flawed=dict(sorted(flawed.items(), key=_most_first)),
    )


def _most_first(counted: tuple[tuple[str, str], int]) -> tuple[int, tuple[str, str]]:
    why, count = counted
    return -count, why


COLLECTIVES = Analysis(LOOKS_AT, _map, _reduce, "collective", moves_bytes_or_is_work)
"""The analysis that makes :class:`Collectives`.

A part holds three numbers for each row that moves bytes, and five for each wait."""
