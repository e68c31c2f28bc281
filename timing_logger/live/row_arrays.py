"""RowArrays of timings as arrays, which are cut, joined and packed in a fraction of the time of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.arrays import Bools, Floats, Ints, dense_codes
from timing_logger.schema.record import FIELDS

ADDED = ("start_s", "end_s", "clock_uncertainty_s")
"""The columns that tell the instants of rows on one axis for all ranks, which only who has all can tell."""

COLUMNS = (*(name for name in COLUMNS_OF["stragglers"] if name not in ADDED), "rank", "incarnation")
"""The columns of rows."""

WHOLE = ("rank", "incarnation")
"""Those that are a whole number in every row."""

INTEGERS = tuple(field.name for field in FIELDS if field.kind == "integer" and field.name in COLUMNS)
TEXTS = tuple(field.name for field in FIELDS if field.kind == "text" and field.name in COLUMNS)

NUMBERS = tuple(name for name in COLUMNS if name not in TEXTS)


class Texts(NamedTuple):
    """A column of texts: for each row the index of its text among those that there are."""

    codes: Ints
    texts: list[str]


@dataclass(frozen=True, eq=False)
class RowArrays:
    """Some rows of timings.

    Attributes:
        numbers: for each column of numbers an array of floats, NaN where it is blank; of integers for
            ``WHOLE``.
        texts: the columns of texts.
    """

    numbers: Mapping[str, Any]
    texts: Mapping[str, Texts]

    @classmethod
    def of(cls, table: pd.DataFrame) -> RowArrays:
        """Take the columns of a table of timings."""
        texts = {}
        for name in TEXTS:
            codes, distinct = pd.factorize(table[name].astype(object).fillna(""))
            texts[name] = Texts(codes.astype(np.int32), [str(text) for text in distinct])
        numbers = {name: table[name].to_numpy(np.float64, na_value=np.nan) for name in NUMBERS}
        numbers.update({name: table[name].to_numpy(np.int64) for name in WHOLE})
        return cls(numbers, texts)

    @classmethod
    def none(cls) -> RowArrays:
        """Return no row."""
        numbers = {name: np.zeros(0, np.int64 if name in WHOLE else np.float64) for name in NUMBERS}
        return cls(numbers, {name: Texts(np.zeros(0, np.int32), []) for name in TEXTS})

    @classmethod
    def joined(cls, several: Sequence[RowArrays], wanted: Ints) -> RowArrays:
        """Put rows one after the other, and return those at these positions."""
        several = several or [cls.none()]
        numbers = {name: joined_numbers(several, name)[wanted] for name in NUMBERS}
        texts = {name: _joined([rows.texts[name] for rows in several]) for name in TEXTS}
        return cls(numbers, {name: Texts(codes[wanted], of) for name, (codes, of) in texts.items()})

    def __len__(self) -> int:
        return len(self.numbers["rank"])

    def only(self, wanted: Bools | Ints | slice) -> RowArrays:
        """Return the rows that are wanted, by a mask, positions or a slice."""
        texts = {name: Texts(column.codes[wanted], column.texts) for name, column in self.texts.items()}
        return RowArrays({name: values[wanted] for name, values in self.numbers.items()}, texts)

    def with_numbers(self, **columns: Floats) -> RowArrays:
        """Return the rows with these columns of numbers added, or in the place of others."""
        return replace(self, numbers={**self.numbers, **columns})

    @property
    def process(self) -> Ints:
        """The number of the process (rank and incarnation) of each row, from 0 and ascending with it."""
        return dense_codes(self.numbers["rank"], self.numbers["incarnation"])

    def table(self) -> pd.DataFrame:
        """Return the rows as ``read_timings`` would, with texts as categoricals."""
        names = (*COLUMNS, *(name for name in ADDED if name in self.numbers))
        table: pd.DataFrame = pd.DataFrame({name: _column(self, name) for name in names}, copy=False)
        return table


def joined_numbers(several: Sequence[RowArrays], name: str) -> Any:
    """Return a column of numbers of rows that are put one after the other."""
    return np.concatenate([rows.numbers[name] for rows in several or [RowArrays.none()]])


def _joined(columns: Sequence[Texts]) -> Texts:
    """Put columns one after the other; those of digests of one run mostly have the same texts."""
    first = columns[0]
    if all(column.texts == first.texts for column in columns):
        return Texts(np.concatenate([column.codes for column in columns]), first.texts)
    number: dict[str, int] = {}
    codes = [
        np.array([number.setdefault(text, len(number)) for text in column.texts], np.int32)[column.codes]
        for column in columns
    ]
    return Texts(np.concatenate(codes), list(number))


def _column(rows: RowArrays, name: str) -> Any:
    if name in TEXTS:
        codes, texts = rows.texts[name]
        return pd.Categorical.from_codes(codes, pd.Index(list(texts), dtype="str"))
    values = rows.numbers[name]
    if name not in INTEGERS:
        return values
    blank = np.isnan(values)
    return pd.arrays.IntegerArray(np.where(blank, 0, values).astype(np.int64), blank)
