"""What the analyses share: any eager DataFrame in, rows of plain values out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np
import numpy.typing as npt
from narwhals.typing import IntoDataFrameT

Floats: TypeAlias = npt.NDArray[np.float64]
Frame: TypeAlias = "nw.DataFrame[Any]"


def opened(timings: IntoDataFrameT) -> nw.DataFrame[IntoDataFrameT]:
    """``timings`` for use here; a table without the column ``incarnation`` has one of each rank."""
    frame = nw.from_native(timings, eager_only=True)
    if "incarnation" not in frame.columns:
        frame = frame.with_columns(nw.lit(1).cast(nw.Int64).alias("incarnation"))
    return frame


def like(
    frame: nw.DataFrame[IntoDataFrameT], schema: Mapping[str, Any], rows: Sequence[tuple[Any, ...]]
) -> IntoDataFrameT:
    """A table of ``rows`` in the library of ``frame``, typed also if there are none."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    data = {name: list(column) for name, column in zip(schema, columns, strict=True)}
    table: IntoDataFrameT = nw.from_dict(data, schema, backend=frame.implementation).to_native()
    return table


def groups(frame: Frame, *keys: str) -> Iterator[tuple[tuple[Any, ...], Frame]]:
    """The values of ``keys`` and the rows that have them, in ascending order of the values."""
    yield from sorted(frame.group_by(*keys), key=lambda group: group[0])


def numbers(rows: Frame, name: str) -> Floats:
    """A column with NaN where it is unknown."""
    return rows[name].cast(nw.Float64).to_numpy().astype(np.float64)


def known(values: Floats) -> Floats:
    return values[~np.isnan(values)]


def with_operation(frame: Frame, names: Iterable[str]) -> Frame:
    return frame.filter(nw.col("operation").is_in(list(names)))


def operation_names(frame: Frame) -> list[str]:
    return frame["operation"].unique().to_list()


def wall_s(rows: Frame) -> float:
    """From the first start to the last end of one process's rows, in seconds; NaN if neither is known."""
    starts, ends = known(numbers(rows, "start_counter")), known(numbers(rows, "end_counter"))
    return float(ends.max() - starts.min()) if len(starts) and len(ends) else float("nan")
