"""Helpers of all analyses: open a table of timings, take arrays for NumPy, make a table of the same kind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.errors import TableError
from timing_logger.record import COLUMNS, FIELDS, HOST_CLOCK, LARGEST, OK

if TYPE_CHECKING:
    from narwhals.typing import IntoDType, IntoSeries

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Array: TypeAlias = npt.NDArray[np.generic]
"""Values of any one type."""

ScalarT = TypeVar("ScalarT", bound=np.generic)

Rows: TypeAlias = "slice | Ints"
"""What selects rows of a table or array: their positions, or a slice."""

Frame: TypeAlias = "nw.DataFrame[Any]"
"""A table of any library. ``nw.DataFrame`` is invariant, so no narrower type has those of all libraries."""

Column: TypeAlias = "nw.Series[IntoSeries]"
"""A column of a table of any library."""

Schema: TypeAlias = "Mapping[str, IntoDType]"
"""The type of each column of a table, by its name."""

Record: TypeAlias = "Mapping[Hashable, Any]"
"""A row of a table, as pandas' ``to_dict("records")`` returns it, with values of several types."""


_TEXT_WHERE_LACKING = {"clock": HOST_CLOCK, "status": OK}
_FLOAT_KINDS = ("milliseconds", "seconds", "amount")
_MOST_IN_32_BITS = 2**31 - 1
_INTEGERS = tuple(field.name for field in FIELDS if field.kind == "integer")


def opened(
    timings: IntoDataFrameT,
    needed: Collection[str] = COLUMNS,
    *,
    by_rank: bool = True,
    as_recorded: bool = False,
) -> nw.DataFrame[IntoDataFrameT]:
    """Open a table of timings for an analysis, with every column of the schema that is ``needed``.

    A table without ``incarnation`` gets incarnation 1 in every row. Other columns that it lacks are blank, as
    ``read_timings`` leaves them. So are integers whose absolute value is beyond :data:`record.LARGEST`. A
    lazy table is collected: that of polars into polars, any other into pandas.

    Args:
        timings: a table of any library that narwhals supports.
        needed: the columns that the analysis needs.
        by_rank: whether every row is of one rank, as rows of timings are; a row of a message is not.
        as_recorded: whether integers beyond :data:`record.LARGEST` are kept, to be shown, not computed with.

    Raises:
        TableError: ``rank`` is lacking, or it or ``incarnation`` is no whole number in every row.
    """
    found = nw.from_native(_without_attrs(timings))
    if isinstance(found, nw.LazyFrame):
        found = found.collect(None if found.implementation.is_polars() else "pandas")
    frame = cast("nw.DataFrame[IntoDataFrameT]", found)
    if not as_recorded:
        frame = _with_exact_integers(frame)
    if by_rank:
        frame = _with_whole_numbers(frame)
    lacking = [
        _blank(frame, field.name, field.kind)
        for field in FIELDS
        if field.name in needed and field.name not in frame.columns
    ]
    if "incarnation" not in frame.columns:
        lacking.append(new_column(frame, "incarnation", np.ones(len(frame), np.int64)))
    return frame.with_columns(*lacking) if lacking else frame


def _with_exact_integers(frame: nw.DataFrame[IntoDataFrameT]) -> nw.DataFrame[IntoDataFrameT]:
    """Return the table with integers that a float cannot hold exactly made blank, as if unknown."""
    names = [name for name in _INTEGERS if name in frame.columns and _has_inexact(frame, name)]
    exact = [
        nw.when(nw.col(name).is_between(-LARGEST, LARGEST)).then(nw.col(name)).alias(name) for name in names
    ]
    return frame.with_columns(*exact) if exact else frame


def _has_inexact(frame: Frame, name: str) -> bool:
    column = frame[name]
    if not column.dtype.is_numeric() or not len(column):
        return False
    if column.dtype == nw.Int64 and column.implementation.is_pandas_like():  # masks take thrice as long
        values = column.to_native().to_numpy(np.int64, na_value=0)
        return bool(values.max() > LARGEST or values.min() < -LARGEST)
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
    return frame.with_columns(*(column for name in names if (column := _repaired(frame, name)) is not None))


def _repaired(frame: Frame, name: str) -> Column | None:
    """Return the column as int64; None if it needs no change."""
    column = frame[name]
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


def _blank(frame: Frame, name: str, kind: str) -> Column:
    if kind == "integer":
        return nullable_integers(frame, name, np.full(len(frame), np.nan))
    if kind in _FLOAT_KINDS:
        return new_column(frame, name, np.full(len(frame), np.nan))
    return text_column(frame, name, [_TEXT_WHERE_LACKING.get(name, "")], np.zeros(len(frame), np.int64))


# -- columns for NumPy -------------------------------------------------------------------------------


def coded_text(frame: Frame, name: str) -> tuple[Ints, list[str]]:
    """Return a text column as indices into its distinct texts, in ascending order; null is blank."""
    column = frame[name]
    if frame.implementation.is_pandas_like() and column.dtype == nw.Categorical and not column.null_count():
        return _coded_categories(column.to_native())
    column = column.cast(nw.String).fill_null("")
    if frame.implementation.is_pandas_like():  # three times as fast as the way for all libraries
        import pandas as pd

        codes, distinct = pd.factorize(column.to_native(), sort=True)
        return codes.astype(np.int64), list(distinct)
    texts: list[str] = sorted(column.unique().to_list())
    if len(texts) < 2:
        return np.zeros(len(frame), np.int64), texts
    return column.replace_strict(texts, list(range(len(texts))), return_dtype=nw.Int64).to_numpy(), texts


def _coded_categories(column: pd.Series[str]) -> tuple[Ints, list[str]]:
    """Return the codes and texts of a categorical, without texts that no row has any more."""
    codes = column.cat.codes.to_numpy()
    texts = np.array(column.cat.categories, dtype=object)
    used = np.flatnonzero(np.bincount(codes, minlength=len(texts)))
    ascending = used[np.argsort(texts[used])]
    if np.array_equal(ascending, np.arange(len(texts))):  # as in whole files
        return codes.astype(np.int64), [str(text) for text in texts]
    number_of = np.zeros(len(texts), np.int64)
    number_of[ascending] = np.arange(len(ascending))
    return number_of[codes], [str(text) for text in texts[ascending]]


def each_text(column: tuple[Ints, list[str]], function: Callable[[str], bool]) -> Bools:
    """Apply a function to the text of each row, once for each distinct text.

    Args:
        column: as ``coded_text`` returned it.
        function: the function of one text.

    Returns:
        The result for each row.
    """
    codes, texts = column
    return np.array([function(text) for text in texts], np.bool_)[codes]


def renamed(column: tuple[Ints, list[str]], function: Callable[[str], str]) -> tuple[Ints, list[str]]:
    """Replace the text of each row by what a function makes of it; the result is as of ``coded_text``."""
    codes, texts = column
    names = [function(text) for text in texts]
    distinct = sorted(set(names))
    return np.array([distinct.index(name) for name in names], np.int64)[codes], distinct


def dense_codes(*keys: Array) -> Ints:
    """Number the distinct combinations of ``keys`` from 0, in their lexicographic order.

    NaN comes before all numbers.

    Args:
        keys: arrays with one entry per row, at least one array.

    Returns:
        The number of each row's combination.
    """
    codes = _codes(keys[0])
    for key in keys[1:]:
        minor = _codes(key)
        if most := minor.max(initial=0):  # 0 if all rows are alike, as in rank or incarnation
            codes = _codes(codes * (most + 1) + minor)
    return codes


def in_few_bytes(values: Ints) -> Ints:
    """Return the same integers in 32 bits if all fit: what is kept of many rows takes half the memory.

    Widen them before they are multiplied.
    """
    fits = not len(values) or (values.min() >= -_MOST_IN_32_BITS and values.max() <= _MOST_IN_32_BITS)
    return cast("Ints", values.astype(np.int32)) if fits else values


def processes_of(frame: Frame) -> Ints:
    """Number the process (rank and incarnation) of each row of a table that ``opened`` returned, from 0."""
    return dense_codes(frame["rank"].to_numpy(), frame["incarnation"].to_numpy())


def _codes(values: Array) -> Ints:
    if values.dtype.kind == "f":
        values = _as_integers(values.astype(np.float64, copy=False))
    if values.dtype.kind in "iub" and len(values):
        least, greatest = int(values.min()), int(values.max())  # Python's: their difference may be large
        if least == greatest:
            return np.zeros(len(values), np.int64)
        if greatest - least <= 2 * len(values):
            return _codes_by_counting(values.astype(np.int64) - least)
    codes, _ = pd.factorize(values, sort=True)
    has_unknown = len(codes) > 0 and codes.min() < 0
    return codes.astype(np.int64) + has_unknown


def _as_integers(values: Floats) -> Floats | Ints:
    """Return values of the same order and equality, as integers if they are whole numbers with few gaps."""
    known = ~np.isnan(values)
    if not known.any():  # hashing would be slow: NaN are all alike
        return np.zeros(len(values), np.int64)
    least = np.fmin.reduce(values)
    greatest = np.fmax.reduce(values)
    if not greatest - least <= len(values):
        return values
    if not ((np.floor(values) == values) | ~known).all():
        return values
    return np.where(known, values - least + 1, 0).astype(np.int64)


def _codes_by_counting(values: Ints) -> Ints:
    """Return dense codes of integers from 0 up to a small multiple of their count, faster than by hashing.

    Counting is ten times as fast as hashing.
    """
    is_present = np.zeros(values.max() + 1, np.bool_)
    is_present[values] = True
    return (np.cumsum(is_present) - 1)[values]


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
        import pandas as pd

        kind: Any = pd.arrays.BooleanArray if values.dtype == np.bool_ else pd.arrays.IntegerArray
        native = pd.Series(kind(values, missing), name=name)
        return nw.from_native(native, series_only=True)
    both = nw.from_dict({name: values, "missing": missing}, backend=frame.implementation)
    return both.select(nw.when(~nw.col("missing")).then(nw.col(name)))[name]


def text_column(frame: Frame, name: str, texts: Sequence[str], codes: Ints) -> Column:
    """Return a column with ``texts[codes[i]]`` in each row ``i``, in the library of ``frame``.

    It is a categorical if the operations in ``frame`` are one: text would take ten times the memory.
    """
    if _has_categoricals(frame) and len(set(texts)) == len(texts):
        import pandas as pd

        small = codes.astype(np.min_scalar_type(-len(texts) - 1))
        native = pd.Series(pd.Categorical.from_codes(small, pd.Index(list(texts), dtype="str")), name=name)
        return nw.from_native(native, series_only=True)
    distinct = nw.new_series(name, list(texts), nw.String, backend=frame.implementation)
    return nw.maybe_reset_index(distinct[codes])


def _has_categoricals(frame: Frame) -> bool:
    is_pandas = frame.implementation.is_pandas_like()
    return is_pandas and "operation" in frame.columns and frame["operation"].dtype == nw.Categorical


def taken(frame: Frame, columns: Sequence[str], rows: Ints) -> Frame:
    """Return ``columns`` of the rows at these positions, each of its own type."""
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


def numbers(rows: Frame, name: str) -> Floats:
    """Return a column as floats, with NaN where unknown. Do not write to it: it may be the table's own.

    A blank text is unknown, too: a column that another program left out may be full of them.
    """
    column = rows[name]
    if column.dtype in (nw.String, nw.Object):
        return np.array([_number(value) for value in column], np.float64)
    if rows.implementation.is_pandas_like():  # same result as below, with fewer copies
        values: Floats = column.to_native().to_numpy(dtype=np.float64, na_value=np.nan)
        return values
    return column.cast(nw.Float64).to_numpy().astype(np.float64, copy=False)


def _number(value: object) -> float:
    is_number = isinstance(value, Real) or (isinstance(value, str) and value.strip() != "")
    return float(cast("float", value)) if is_number else float("nan")


def known(values: Floats) -> Floats:
    """Return the values that are not NaN."""
    return values[~np.isnan(values)]


def of_pandas() -> Frame:
    """Return an empty table of pandas, to make results in its library."""
    none: Frame = nw.from_native(pd.DataFrame())
    return none
