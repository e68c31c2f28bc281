"""Analyses of collectives that can be done in blocks of them: see ``_instance_order``.

What is kept of a block is a few columns of what was found in it. The answer from the blocks, in their order,
is that of all rows together, to the last bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import narwhals as nw
import numpy as np

from timing_logger._sources import joined
from timing_logger.analysis._compressed_rows import WORK, first_words, sends
from timing_logger.analysis._frames import Frame, new_column, opened, taken, text_column
from timing_logger.analysis._in_parts import InParts
from timing_logger.analysis._instances import Instances
from timing_logger.analysis.bandwidth import Measured, bandwidth_of
from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.compression import compression_of
from timing_logger.analysis.matching import match_collectives
from timing_logger.analysis.per_rank import summarize_waits
from timing_logger.analysis.waiting import complete_instances, waits

if TYPE_CHECKING:
    import pandas as pd

Columns: TypeAlias = "dict[str, Any]"
"""A table, column by column."""

_MEASURED = ("size", "is_ok", "time_ms", "transfer_ms", "handled")

_OF_TOTALS = (
    "operation", "group", "rank", "incarnation", "last_arriver", "clock_violation", "wait_ms",
    "clock_free_wait_ms", "arrival_skew_ms", "transfer_ms", "uncertainty_ms",
)  # fmt: skip

_TEXTS = ("operation", "group", "layer_name", "phase", "state", "why")

_OF_THE_FLAWED = ["group", "seq", "operation", "state", "why"]


# -- bandwidth and compression ---------------------------------------------------------------------------


def _measured(timings: pd.DataFrame) -> Columns:
    frame = opened(timings, COLUMNS_OF["bandwidth"])
    measured = Measured.of(frame, complete_instances(frame))
    return compact_columns(_table_of(frame, measured.only(measured.has_bandwidth)).to_native())


def _table_of(frame: Frame, measured: Measured, *others: str) -> Frame:
    """What was measured, with these columns of its rows."""
    return taken(frame, ["group", "group_size", *others], measured.row).with_columns(
        text_column(frame, "operation", measured.operations, measured.operation),
        *(new_column(frame, name, getattr(measured, name)) for name in _MEASURED),
    )


def _measured_in(table: pd.DataFrame) -> Measured:
    operation = table["operation"].cat
    return Measured(
        row=np.arange(len(table)),
        operation=operation.codes.to_numpy().astype(np.int64),
        operations=operation.categories.tolist(),
        group_size=table["group_size"].to_numpy(np.float64, na_value=np.nan),
        **{name: table[name].to_numpy() for name in _MEASURED},
    )


def _bandwidth(parts: Sequence[Columns]) -> pd.DataFrame:
    return bandwidth_in(joined_columns(parts))


BANDWIDTH = InParts(_measured, _bandwidth)
"""``bandwidth``: what is held is eight numbers for each row that moves bytes."""


def measured_with_work(frame: Frame, parts: Instances) -> Columns:
    """What ``compression`` needs, and ``bandwidth``; ``parts`` are the ``complete_instances``."""
    measured = Measured.of(frame, parts, WORK)
    word, words = first_words(frame)
    table = _table_of(frame, measured, "layer_name").with_columns(
        text_column(frame, "phase", words, word[measured.row]),
        new_column(frame, "sends", sends(frame, parts, measured.row)),
    )
    return compact_columns(table.to_native())


def bandwidth_in(table: pd.DataFrame) -> pd.DataFrame:
    """``bandwidth`` of what was measured."""
    found: pd.DataFrame = bandwidth_of(nw.from_native(table), _measured_in(table)).to_native()
    return found


def compression_in(table: pd.DataFrame, dense: pd.DataFrame | None = None) -> pd.DataFrame:
    """``compression`` of what was measured ``_with_work``; ``dense`` is what ``bandwidth`` says of another
    run."""
    frame = nw.from_native(table)
    found = compression_of(frame, _measured_in(table), table["sends"].to_numpy(), dense).to_native()
    as_pandas: pd.DataFrame = found
    return as_pandas


def _part_of_compression(timings: pd.DataFrame) -> Columns:
    frame = opened(timings, COLUMNS_OF["compression"])
    return measured_with_work(frame, complete_instances(frame))


def _compression(parts: Sequence[Columns], *, dense: pd.DataFrame | None) -> pd.DataFrame:
    return compression_in(joined_columns(parts), dense)


def compression_in_blocks(dense: pd.DataFrame | None) -> InParts[Columns, pd.DataFrame]:
    """``compression``, with what ``bandwidth`` says of another run: what is held is eleven numbers for each
    row that moves bytes, or is work for that."""
    return InParts(_part_of_compression, partial(_compression, dense=dense))


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
    return _PartOfWaits(compact_columns(waits(timings)[list(_OF_TOTALS)]), states, compact_columns(flawed))


def _waits(parts: Sequence[_PartOfWaits]) -> WaitsAndStates:
    states: Counter[str] = Counter()
    for part in parts:
        states.update(part.states)
    totals = summarize_waits(joined_columns([part.waits for part in parts]))
    return WaitsAndStates(totals, dict(states), joined_columns([part.flawed for part in parts]))


WAITS = InParts(_part_of_waits, _waits)
"""What the command ``waits`` says of collectives: what is held is eleven numbers for each rank's part."""


# -- tables of parts -------------------------------------------------------------------------------------


def compact_columns(table: pd.DataFrame) -> Columns:
    """A table, text as categoricals. Columns by themselves: each can be let go when it has been joined."""
    small = table.astype(dict.fromkeys(_texts(table), "category"))
    return {str(name): small[name].copy() for name in small}


def _texts(table: pd.DataFrame) -> Collection[str]:
    return [name for name in _TEXTS if name in table]


def joined_columns(parts: Sequence[Columns]) -> pd.DataFrame:
    """Empties ``parts``: what was kept of many blocks shall not be held twice."""
    return joined(parts, list(parts[0]))
