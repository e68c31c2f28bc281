"""What a monitor knows of the processes of a host for some seconds: where they are, and rows of some steps.

A digest has the rows of whole steps as they were recorded, only fewer of them. So it is judged as the timing
files are. Its rows are arrays, which are cut, joined and packed in a fraction of the time of a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.arrays import Bools, Floats, Ints, dense_codes
from timing_logger.reading.alignment import Alignment
from timing_logger.reading.host_rows import COUNTED
from timing_logger.schema.host_counters import INSTANTS
from timing_logger.schema.record import FIELDS

# -- rows of timings -------------------------------------------------------------------------------------


ADDED = ("start_s", "end_s", "clock_uncertainty_s")
"""The columns that tell the instants of rows on one axis for all ranks, which only who has all can tell."""

COLUMNS = (*(name for name in COLUMNS_OF["stragglers"] if name not in ADDED), "rank", "incarnation")
"""The columns of rows."""

WHOLE = ("rank", "incarnation")
"""Those that are a whole number in every row."""

_INTEGERS = tuple(field.name for field in FIELDS if field.kind == "integer" and field.name in COLUMNS)
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
    if name not in _INTEGERS:
        return values
    blank = np.isnan(values)
    return pd.arrays.IntegerArray(np.where(blank, 0, values).astype(np.int64), blank)


# -- what hosts count ------------------------------------------------------------------------------------


class CounterRows(NamedTuple):
    """Rows of files of counters; one for each second of each process.

    Attributes:
        rank, incarnation: of the process.
        values: rows x ``COUNTED``; NaN where something is not known.
    """

    rank: Ints
    incarnation: Ints
    values: Floats

    @classmethod
    def joined(cls, several: Sequence[CounterRows]) -> CounterRows:
        """Put rows one after the other."""
        none = np.zeros(0, np.int64)
        return cls(
            np.concatenate([none, *(rows.rank for rows in several)]),
            np.concatenate([none, *(rows.incarnation for rows in several)]),
            np.concatenate([np.zeros((0, len(COUNTED))), *(rows.values for rows in several)]),
        )

    def only(self, wanted: Bools) -> CounterRows:
        """Return the rows that are wanted."""
        return CounterRows(self.rank[wanted], self.incarnation[wanted], self.values[wanted])

    def table(self, process: Ints, clocks: Sequence[Alignment]) -> pd.DataFrame:
        """Return a table as ``read_host_counters`` does, without the wall clock.

        Args:
            process: for each row the number of its process.
            clocks: for each process how its instants are put on the axis of all.
        """
        on_axis = np.empty((len(INSTANTS), len(process)))
        for number in np.unique(process):
            its = process == number
            for axis, counter_s in zip(on_axis, self.values.T, strict=False):
                axis[its] = clocks[number].on_the_axis(counter_s[its])
        axes = dict(zip(("start_s", "end_s"), on_axis, strict=True))
        counted = dict(zip(COUNTED, self.values.T, strict=True))
        columns = {"rank": self.rank, "incarnation": self.incarnation, **axes, **counted}
        table: pd.DataFrame = pd.DataFrame(columns)
        return table


# -- the digest, and where each of its processes is ------------------------------------------------------


Key: TypeAlias = tuple[int, int, int]
"""The rank, incarnation and generation of a process."""


class ProcessPlace(NamedTuple):
    """Where a process is.

    Attributes:
        rank, incarnation: of the process.
        generation: how many files of this name were there before: a folder may be emptied for another run.
        sidecar: what it said last of itself; empty if it has said nothing.
        n_rows: the number of rows that were read since the digest before.
        n_iterations: the number of iterations in which these are.
        since_s, until_s: when the first of them began, and the last one ended, on the clock of the process;
            NaN without any.
        wall_offset_s: the time since 1970 less the time on that clock, by these rows; NaN without any.
        iteration, epoch: of its latest row; None if it states none.
        written: the number of rows that it has written, as far as is known; None if that is unknown.
        counted: whether it states no iteration. Then its collectives count as steps where some are left out,
            and the iteration of a row is the number of the next of these.
        unfinished: the number of calls that are open.
        changed_unix_s: when its file was last written to.
    """

    rank: int
    incarnation: int
    generation: int
    sidecar: dict[str, Any]
    n_rows: int
    n_iterations: int
    since_s: float
    until_s: float
    wall_offset_s: float
    iteration: int | None
    epoch: int | None
    written: int | None
    counted: bool
    unfinished: int
    changed_unix_s: float

    @property
    def key(self) -> Key:
        """What tells it from all others."""
        return self.rank, self.incarnation, self.generation


class Digest(NamedTuple):
    """What is known of some processes, such as those of a host.

    Attributes:
        source: the name of the host, or of another source of digests.
        number: how many digests of this source came before.
        unix_s: when it was made.
        every: of how many steps one was chosen.
        processes: where each process is.
        rows: rows of the chosen steps, those of each process together.
        last: the last rows of each process, as ``last_rows`` returns them.
        counters: what the host counted meanwhile.
    """

    source: str
    number: int
    unix_s: float
    every: int
    processes: Sequence[ProcessPlace]
    rows: RowArrays
    last: Sequence[pd.DataFrame] = ()
    counters: CounterRows = CounterRows.joined([])
