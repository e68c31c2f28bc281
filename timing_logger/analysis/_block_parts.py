"""Analyses of collectives that can be done in blocks of them: see ``_instance_order``.

What is kept of a block is a few columns of what was found in it. The answer from the blocks, in their order,
is that of all rows together, to the last bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import narwhals as nw
import numpy as np

from timing_logger._sources import joined
from timing_logger.analysis._frames import Frame, new_column, opened, taken, text_column
from timing_logger.analysis._in_parts import InParts
from timing_logger.analysis.bandwidth import Measured, bandwidth_of
from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.matching import match_collectives
from timing_logger.analysis.per_rank import summarize_waits
from timing_logger.analysis.waiting import waits

if TYPE_CHECKING:
    import pandas as pd

Columns: TypeAlias = "dict[str, Any]"
"""A table, column by column."""

_MEASURED = ("size", "time_ms", "transfer_ms", "handled")

_OF_TOTALS = (
    "operation", "group", "rank", "incarnation", "last_arriver", "clock_violation", "wait_ms",
    "clock_free_wait_ms", "arrival_skew_ms", "transfer_ms", "uncertainty_ms",
)  # fmt: skip

_OF_THE_FLAWED = ["group", "seq", "operation", "state", "why"]


# -- bandwidth -----------------------------------------------------------------------------------------


def _measured(timings: pd.DataFrame) -> Columns:
    frame = opened(timings, COLUMNS_OF["bandwidth"])
    measured = Measured.of(frame)
    table: Frame = taken(frame, ["group", "group_size"], measured.row).with_columns(
        text_column(frame, "operation", measured.operations, measured.operation),
        *(new_column(frame, name, getattr(measured, name)) for name in _MEASURED),
    )
    return _compact(table.to_native())


def _bandwidth(parts: Sequence[Columns]) -> pd.DataFrame:
    table = _joined(parts)
    frame = nw.from_native(table)
    operation = table["operation"].cat
    measured = Measured(
        row=np.arange(len(table)),
        operation=operation.codes.to_numpy().astype(np.int64),
        operations=operation.categories.tolist(),
        group_size=table["group_size"].to_numpy(np.float64, na_value=np.nan),
        **{name: table[name].to_numpy() for name in _MEASURED},
    )
    found: pd.DataFrame = bandwidth_of(frame, measured).to_native()
    return found


BANDWIDTH = InParts(_measured, _bandwidth)
"""``bandwidth``: what is held is seven numbers for each row that moves bytes."""


# -- waits -----------------------------------------------------------------------------------------------


class WaitsAndStates(NamedTuple):
    """Who waited for whom, and which collectives are not whole.

    Attributes:
        totals: what ``summarize_waits`` makes of the waits.
        states: how many collectives are in each state of ``match_collectives``.
        flawed: those that are not complete, with ``group``, ``seq``, ``operation``, ``state`` and ``why``.
    """

    totals: pd.DataFrame
    states: dict[str, int]
    flawed: pd.DataFrame


class _PartOfWaits(NamedTuple):
    waits: Columns
    states: dict[str, int]
    flawed: Columns


def _part_of_waits(timings: pd.DataFrame) -> _PartOfWaits:
    matched = match_collectives(timings).drop_duplicates("instance")
    states = {str(state): int(count) for state, count in matched["state"].value_counts().items() if count}
    flawed = matched.loc[matched["state"] != "complete", _OF_THE_FLAWED]
    return _PartOfWaits(_compact(waits(timings)[list(_OF_TOTALS)]), states, _compact(flawed))


def _waits(parts: Sequence[_PartOfWaits]) -> WaitsAndStates:
    states: Counter[str] = Counter()
    for part in parts:
        states.update(part.states)
    totals = summarize_waits(_joined([part.waits for part in parts]))
    return WaitsAndStates(totals, dict(states), _joined([part.flawed for part in parts]))


WAITS = InParts(_part_of_waits, _waits)
"""What the command ``waits`` says of collectives: what is held is eleven numbers for each rank's part."""


# -- tables of parts -------------------------------------------------------------------------------------


def _compact(table: pd.DataFrame) -> Columns:
    """Text as categoricals. Columns by themselves, so that each can be let go when it has been joined."""
    small = table.astype(dict.fromkeys(_texts(table), "category"))
    return {str(name): small[name].copy() for name in small}


def _texts(table: pd.DataFrame) -> Collection[str]:
    return [name for name in ("operation", "group", "state", "why") if name in table]


def _joined(parts: Sequence[Columns]) -> pd.DataFrame:
    """Empties ``parts``: what was kept of many blocks shall not be held twice."""
    return joined(parts, list(parts[0]))
