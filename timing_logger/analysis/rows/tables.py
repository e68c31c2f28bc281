"""Helpers of all analyses: open a table of timings, make a table or column of the same library."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.rows.arrays import (
    Array,
    Bools,
    Column,
    Floats,
    Frame,
    Ints,
    Schema,
    column_of_pandas,
    holds_columns,
    numbers,
    once,
)
from timing_logger.analysis.rows.files import laid_end_to_end
from timing_logger.errors import TableError
from timing_logger.reading.sources import joined
from timing_logger.schema.record import COLUMNS, FIELDS, HOST_CLOCK, LARGEST, OK

_TEXT_WHERE_LACKING = {"clock": HOST_CLOCK, "status": OK}
_FLOAT_KINDS = ("milliseconds", "seconds", "amount")
_UNKNOWN_WHERE_UNTOLD = ("end_counter", "start_s", "end_s", "clock_uncertainty_s")
_INTEGERS = tuple(field.name for field in FIELDS if field.kind == "integer")


def opened(
    timings: IntoDataFrameT,
    needed: Collection[str] = COLUMNS,
    *,
    by_rank: bool = True,
    as_recorded: bool = False,
    as_laid_out: bool = False,
) -> nw.DataFrame[IntoDataFrameT]:
    """Open a table of timings for an analysis, with every column of the schema that is ``needed``.

    A table without ``incarnation`` gets incarnation 1 in every row. Other columns that it lacks are blank, as
    ``read_timings`` leaves them. So are integers whose absolute value is beyond ``record.LARGEST``. A
    lazy table is collected: that of polars into polars, any other into pandas.

    Where a source does not tell when the operations of a rank happened (:func:`files.laid_end_to_end`), the
    ends of its rows are unknown here, and so are their instants on the axis of all ranks: whatever needs one
    comes out as unknown. ``start_counter`` stays, for the order of the rows of a rank.

    Args:
        timings: a table of any library that narwhals supports.
        needed: the columns that the analysis needs.
        by_rank: whether every row is of one rank, as rows of timings are; a row of a message is not.
        as_recorded: whether integers beyond ``record.LARGEST`` are kept, to be shown, not computed with.
        as_laid_out: whether instants are kept that no source told, to draw the rows of each rank in a line.

    Raises:
        TableError: ``rank`` is lacking, or it or ``incarnation`` is no whole number in every row.
    """
    untold = set() if as_laid_out else laid_end_to_end(getattr(timings, "attrs", {}).get("files", []))
    if isinstance(timings, nw.DataFrame) and not holds_columns(timings):
        timings = timings.to_native()  # a program may change what it holds: its columns are not kept with it
    found = nw.from_native(_without_attrs(timings))
    if isinstance(found, nw.LazyFrame):
        found = found.collect(None if found.implementation.is_polars() else "pandas")
    frame = cast("nw.DataFrame[IntoDataFrameT]", found)
    if not as_recorded:
        frame = _with_exact_integers(frame)
    if by_rank:
        frame = _with_whole_numbers(frame)
        frame = _without_instants_of(frame, untold) if untold else frame
    present = set(frame.columns)  # narwhals makes the list anew each time
    lacking = [
        _blank(frame, field.name, field.kind)
        for field in FIELDS
        if field.name in needed and field.name not in present
    ]
    if "incarnation" not in present:
        lacking.append(new_column(frame, "incarnation", np.ones(len(frame), np.int64)))
    return frame.with_columns(*lacking) if lacking else frame


def _with_exact_integers(frame: nw.DataFrame[IntoDataFrameT]) -> nw.DataFrame[IntoDataFrameT]:
    """Return the table with integers that a float cannot hold exactly made blank, as if unknown."""
    present = set(frame.columns)
    names = [name for name in _INTEGERS if name in present and _has_inexact(frame, name)]
    exact = [
        nw.when(nw.col(name).is_between(-LARGEST, LARGEST)).then(nw.col(name)).alias(name) for name in names
    ]
    return frame.with_columns(*exact) if exact else frame


@once
def _has_inexact(frame: Frame, name: str) -> bool:
    of_pandas = column_of_pandas(frame, name)
    if of_pandas is not None and of_pandas.dtype == "Int64" and len(of_pandas):  # masks take thrice as long
        values = of_pandas.to_numpy(np.int64, na_value=0)
        return bool(values.max() > LARGEST or values.min() < -LARGEST)
    column = frame.get_column(name)
    if not column.dtype.is_numeric() or not len(column):
        return False
    ends = column.min(), column.max()
    return any(isinstance(end, (int, float, np.number)) and abs(float(end)) > LARGEST for end in ends)


def _without_attrs(timings: Any) -> Any:
    """Return the table without ``attrs``: pandas copies all sidecars in it with every table and column."""
    if not getattr(timings, "attrs", None):
        return timings
    bare = timings.copy(deep=False)
    bare.attrs = {}
    return bare


def _with_whole_numbers(frame: nw.DataFrame[IntoDataFrameT]) -> nw.DataFrame[IntoDataFrameT]:
    """Return the table with the rank and the incarnation of each row as integers."""
    if "rank" not in frame.columns:
        raise TableError(
            "timings: there is no column 'rank', which says whose row each is. read_timings() brings it; to "
            "a table of one process add timings.assign(rank=0)."
        )
    names = [name for name in ("rank", "incarnation") if name in frame.columns]
    repaired = [column for name in names if (column := _repaired(frame, name)) is not None]
    return frame.with_columns(*repaired) if repaired else frame


def _repaired(frame: Frame, name: str) -> Column | None:
    """Return the column as int64; None if it needs no change."""
    of_pandas = column_of_pandas(frame, name)
    if of_pandas is not None and of_pandas.dtype == np.int64:
        return None
    column = frame.get_column(name)
    if column.dtype.is_integer() and not column.null_count():
        return None
    try:
        values = numbers(frame, name)
    except (TypeError, ValueError, nw.exceptions.NarwhalsError):
        values = np.full(len(frame), np.nan)
    wrong = int((values != np.floor(values)).sum())  # also where it is unknown
    if wrong:
        raise TableError(
            f"timings: the column {name!r} is no whole number in {wrong} of {len(frame)} rows. Give every "
            f"row one, or leave those rows out: timings[timings[{name!r}].notna()]."
        )
    return new_column(frame, name, values.astype(np.int64))


def _without_instants_of(
    frame: nw.DataFrame[IntoDataFrameT], processes: Collection[tuple[int, int]]
) -> nw.DataFrame[IntoDataFrameT]:
    """Return the table with the instants of these processes unknown, but for the order of their rows."""
    names = [name for name in _UNKNOWN_WHERE_UNTOLD if name in frame.columns]
    rank = frame["rank"].to_numpy()
    incarnation = frame["incarnation"].to_numpy() if "incarnation" in frame.columns else np.ones_like(rank)
    untold = np.zeros(len(frame), np.bool_)
    for its_rank, its_incarnation in processes:
        untold |= (rank == its_rank) & (incarnation == its_incarnation)
    blank = {name: np.where(untold, np.nan, numbers(frame, name)) for name in names}
    return frame.with_columns(*new_columns(frame, blank)) if untold.any() else frame


def _blank(frame: Frame, name: str, kind: str) -> Column:
    if kind == "integer":
        return nullable_integers(frame, name, np.full(len(frame), np.nan))
    if kind in _FLOAT_KINDS:
        return new_column(frame, name, np.full(len(frame), np.nan))
    return text_column(frame, name, [_TEXT_WHERE_LACKING.get(name, "")], np.zeros(len(frame), np.int64))


# -- columns of a result -----------------------------------------------------------------------------


def new_column(frame: Frame, name: str, values: Array) -> Column:
    """Return ``values`` as a column in the library of ``frame``."""
    return nw.new_series(name, values, backend=frame.implementation)


def new_columns(frame: Frame, figures: Mapping[str, Array]) -> list[Column]:
    """Return a column for each array, under its name, in the library of ``frame``."""
    return [new_column(frame, name, values) for name, values in figures.items()]


def nullable_integers(frame: Frame, name: str, values: Floats) -> Column:
    """Return a column of integers in the library of ``frame``, NA where ``values`` is NaN.

    In pandas its type is ``Int64``.
    """
    missing = np.isnan(values)
    return nullable(frame, name, np.where(missing, 0, values).astype(np.int64), missing)


def nullable(frame: Frame, name: str, values: Ints | Bools, missing: Bools) -> Column:
    """Return a column of integers or booleans in the library of ``frame``, NA where ``missing``.

    In pandas its type is ``Int64`` or ``boolean``.
    """
    if frame.implementation.is_pandas_like():
        kind: Any = pd.arrays.BooleanArray if values.dtype == np.bool_ else pd.arrays.IntegerArray
        native = pd.Series(kind(values, missing), name=name)
        return nw.from_native(native, series_only=True)
    both = nw.from_dict({name: values, "missing": missing}, backend=frame.implementation)
    return both.select(nw.when(~nw.col("missing")).then(nw.col(name)))[name]


def text_column(frame: Frame, name: str, texts: Sequence[str], codes: Ints) -> Column:
    """Return a column with ``texts[codes[i]]`` in each row ``i``, in the library of ``frame``.

    It is a categorical if the operations in ``frame`` are one: text would take ten times the memory.
    """
    is_pandas = frame.implementation.is_pandas_like() and "operation" in frame.columns
    if is_pandas and frame["operation"].dtype == nw.Categorical and len(set(texts)) == len(texts):
        small = codes.astype(np.min_scalar_type(-len(texts) - 1))
        native = pd.Series(pd.Categorical.from_codes(small, pd.Index(list(texts), dtype="str")), name=name)
        return nw.from_native(native, series_only=True)
    distinct = nw.new_series(name, list(texts), nw.String, backend=frame.implementation)
    return nw.maybe_reset_index(distinct[codes])


def taken(frame: Frame, columns: Sequence[str], rows: Ints) -> Frame:
    """Return ``columns`` of the rows at these positions, each of its own type."""
    native = frame.to_native()
    if isinstance(native, pd.DataFrame):
        these = native if list(native.columns) == list(columns) else native[list(columns)]
        return nw.from_native(these.take(rows).reset_index(drop=True), eager_only=True)
    return nw.maybe_reset_index(frame.select(*columns)[rows])


# -- tables of few rows ------------------------------------------------------------------------------


def like(
    frame: nw.DataFrame[IntoDataFrameT], schema: Schema, rows: Sequence[tuple[object, ...]]
) -> IntoDataFrameT:
    """Make a table of ``rows`` in the library of ``frame``, with the types of ``schema`` even if empty."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    data = {name: list(column) for name, column in zip(schema, columns, strict=True)}
    table: IntoDataFrameT = nw.from_dict(data, schema, backend=frame.implementation).to_native()
    return table


def of_pandas() -> Frame:
    """Return an empty table of pandas, to make results in its library."""
    none: Frame = nw.from_native(pd.DataFrame())
    return none


# -- join the tables of many parts -----------------------------------------------------------------------


def in_one_table(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Join the rows of tables, and their ``attrs["files"]``."""
    columns = [str(name) for name in tables[0]]
    rows = joined([{name: table[name] for name in columns} for table in tables], columns)
    rows.attrs["files"] = [file for table in tables for file in table.attrs.get("files", [])]
    return rows
