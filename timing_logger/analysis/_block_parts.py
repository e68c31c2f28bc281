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
import numpy.typing as npt

from timing_logger._sources import joined
from timing_logger.analysis._compressed_rows import first_words, measured_with_work
from timing_logger.analysis._frames import Floats, Frame, new_column, opened, taken, text_column
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

Column: TypeAlias = "nw.Series[Any]"

_OF_KINDS = ("size", "is_ok", "handled")

_OF_TOTALS = (
    "operation", "group", "rank", "incarnation", "last_arriver", "clock_violation", "wait_ms",
    "clock_free_wait_ms", "arrival_skew_ms", "transfer_ms", "uncertainty_ms",
)  # fmt: skip

_TEXTS = ("operation", "group", "layer_name", "phase", "state", "why")

_OF_THE_FLAWED = ["group", "seq", "operation", "state", "why"]


# -- bandwidth and compression ---------------------------------------------------------------------------


class MeasuredPart(NamedTuple):
    """What was measured of a block.

    Attributes:
        kinds: a row for each kind of ``Measured``.
        kind, time_ms, transfer_ms: of each row, as there.
    """

    kinds: Columns
    kind: npt.NDArray[Any]
    time_ms: Floats
    transfer_ms: Floats

    @classmethod
    def of(cls, frame: Frame, measured: Measured, **others: Column) -> MeasuredPart:
        """``others`` are columns of the kinds too."""
        kinds = taken(frame, ["group", "group_size"], measured.row).with_columns(
            text_column(frame, "operation", measured.operations, measured.operation),
            *(new_column(frame, name, getattr(measured, name)) for name in _OF_KINDS),
            *(column.alias(name) for name, column in others.items()),
        )
        kind = measured.kind.astype(np.min_scalar_type(len(measured.row)))
        return cls(compact_columns(kinds.to_native()), kind, measured.time_ms, measured.transfer_ms)


def _measured(timings: pd.DataFrame) -> MeasuredPart:
    frame = opened(timings, COLUMNS_OF["bandwidth"])
    measured = Measured.of(frame, complete_instances(frame))
    return MeasuredPart.of(frame, measured.only(measured.has_bandwidth))


def joined_measured(parts: Sequence[MeasuredPart]) -> tuple[pd.DataFrame, Measured]:
    """The kinds of all parts, which may be alike, and what was measured; empties ``kinds`` of the parts."""
    first = np.cumsum([0, *(len(part.kinds["group"]) for part in parts)])
    small = np.min_scalar_type(first[-1])
    kind = [part.kind.astype(small) + small.type(number) for part, number in zip(parts, first, strict=False)]
    kinds = joined_columns([part.kinds for part in parts])
    operation = kinds["operation"].cat
    return kinds, Measured(
        row=np.arange(len(kinds)),
        operation=operation.codes.to_numpy().astype(np.int64),
        operations=operation.categories.tolist(),
        group_size=kinds["group_size"].to_numpy(np.float64, na_value=np.nan),
        kind=np.concatenate(kind),
        time_ms=np.concatenate([part.time_ms for part in parts]),
        transfer_ms=np.concatenate([part.transfer_ms for part in parts]),
        **{name: kinds[name].to_numpy() for name in _OF_KINDS},
    )


def _bandwidth(parts: Sequence[MeasuredPart]) -> pd.DataFrame:
    return bandwidth_in(*joined_measured(parts))


BANDWIDTH = InParts(_measured, _bandwidth)
"""``bandwidth``: what is held is three numbers for each row that moves bytes."""


def with_work(frame: Frame, parts: Instances) -> MeasuredPart:
    """What ``compression`` needs, and ``bandwidth``; ``parts`` are the ``complete_instances``."""
    measured, sends = measured_with_work(frame, parts)
    word, words = first_words(frame)
    return MeasuredPart.of(
        frame,
        measured,
        layer_name=frame["layer_name"][measured.row],
        phase=text_column(frame, "phase", words, word[measured.row]),
        sends=new_column(frame, "sends", sends),
    )


def bandwidth_in(kinds: pd.DataFrame, measured: Measured) -> pd.DataFrame:
    """``bandwidth`` of what was measured."""
    found: pd.DataFrame = bandwidth_of(nw.from_native(kinds), measured).to_native()
    return found


def compression_in(
    kinds: pd.DataFrame, measured: Measured, dense: pd.DataFrame | None = None
) -> pd.DataFrame:
    """``compression`` of what was measured ``with_work``; ``dense`` is what ``bandwidth`` says of another
    run."""
    found = compression_of(nw.from_native(kinds), measured, kinds["sends"].to_numpy(), dense).to_native()
    as_pandas: pd.DataFrame = found
    return as_pandas


def _part_of_compression(timings: pd.DataFrame) -> MeasuredPart:
    frame = opened(timings, COLUMNS_OF["compression"])
    return with_work(frame, complete_instances(frame))


def _compression(parts: Sequence[MeasuredPart], *, dense: pd.DataFrame | None) -> pd.DataFrame:
    return compression_in(*joined_measured(parts), dense)


def compression_in_blocks(dense: pd.DataFrame | None) -> InParts[MeasuredPart, pd.DataFrame]:
    """``compression``, with what ``bandwidth`` says of another run: what is held is three numbers for each
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
