"""Sum how long ranks waited for each other in collectives, and list the collectives that are not complete."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.collectives.match_table import match_collectives
from timing_logger.analysis.collectives.waits import waits
from timing_logger.analysis.rows.analysis import COLUMNS_OF, OfCommunication
from timing_logger.analysis.rows.arrays import coded_text, dense_codes, numbers
from timing_logger.analysis.rows.grouping import any_row_of, known_sums, quantiles, sums
from timing_logger.analysis.rows.table_types import Floats, Frame, Ints
from timing_logger.analysis.rows.tables import new_columns, opened, taken

_OF_WAITS = ("operation", "group", "rank", "incarnation")


def summarize_waits(waits: IntoDataFrameT) -> IntoDataFrameT:
    """Summarize waits by operation, group, rank and incarnation.

    Args:
        waits: as :func:`timing_logger.analysis.waits` returns.

    Returns:
        One row for each operation, group, rank and incarnation, in ascending order.

    Columns:
        operation, group, rank, incarnation.
        count: number of collectives.
        wait_ms, clock_free_wait_ms: sums over the collectives (NaN if no collective has one).
        arrival_skew_ms, transfer_ms: medians over the collectives.
        times_last: number of collectives in which this rank was the last to arrive.
        clock_violations: number of collectives in which this rank's part contradicts the clocks.
        uncertainty_ms: the largest over the collectives.
    """
    frame = opened(waits, _OF_WAITS)
    key = dense_codes(
        coded_text(frame, "operation")[0], coded_text(frame, "group")[0],
        frame["rank"].to_numpy(), frame["incarnation"].to_numpy(),
    )  # fmt: skip
    row = any_row_of(key)
    figures = {"count": np.bincount(key, minlength=len(row)), **_wait_figures(frame, key, len(row))}
    table = taken(frame, _OF_WAITS, row).with_columns(*new_columns(frame, figures))
    return cast("IntoDataFrameT", table.to_native())


def _wait_figures(frame: Frame, key: Ints, n_groups: int) -> dict[str, Floats | Ints]:
    is_last = (numbers(frame, "last_arriver") == numbers(frame, "rank")).astype(np.float64)
    violates = frame["clock_violation"].to_numpy().astype(np.float64)
    return {
        "wait_ms": known_sums(numbers(frame, "wait_ms"), key, n_groups),
        "clock_free_wait_ms": known_sums(numbers(frame, "clock_free_wait_ms"), key, n_groups),
        "arrival_skew_ms": quantiles(numbers(frame, "arrival_skew_ms"), key, n_groups, [0.5])[0],
        "transfer_ms": quantiles(numbers(frame, "transfer_ms"), key, n_groups, [0.5])[0],
        "times_last": sums(is_last, key, n_groups).astype(np.int64),
        "clock_violations": sums(violates, key, n_groups).astype(np.int64),
        "uncertainty_ms": quantiles(numbers(frame, "uncertainty_ms"), key, n_groups, [1.0])[0],
    }


_OF_THE_FLAWED = ["group", "seq", "operation", "state", "why"]


class WaitsAndStates(NamedTuple):
    """The summed waits of ranks, and the collectives that are not complete.

    Attributes:
        totals: as ``summarize_waits`` returns.
        states: the number of collectives in each state of ``match_collectives``.
        flawed: the collectives that are not complete, with ``group``, ``seq``, ``operation``, ``state`` and
            ``why``.
    """

    totals: pd.DataFrame
    states: dict[str, int]
    flawed: pd.DataFrame


def waits_and_states(timings: pd.DataFrame) -> WaitsAndStates:
    """Sum the waits of a table of timings, and list the collectives that are not complete."""
    states, flawed = _states(timings)
    return WaitsAndStates(summarize_waits(waits(timings)), states, flawed)


def _states(timings: pd.DataFrame) -> tuple[dict[str, int], pd.DataFrame]:
    matched = match_collectives(timings).drop_duplicates("instance")
    states = {str(state): int(count) for state, count in matched["state"].value_counts().items() if count}
    return states, matched.loc[matched["state"] != "complete", _OF_THE_FLAWED].reset_index(drop=True)


WAITS = OfCommunication(COLUMNS_OF["waits"], waits_and_states)
"""The analysis :func:`waits_and_states`."""
