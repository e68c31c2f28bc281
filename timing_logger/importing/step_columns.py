"""Which columns of a log of step times say what, and what a record says by them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from timing_logger.errors import ConfigurationError, NotImportableError
from timing_logger.importing.imported import LeftOut
from timing_logger.importing.step_records import (
    Cells,
    StepRecords,
    Unusable,
    amount,
    cell,
    duration_ns,
    has,
    unix_ns,
    whole,
)
from timing_logger.schema.timing_files import MAX_RANK

_MOST_INTEGER = 2**62
_MS_PER_S = 1e3
_RANK_IN_NAME = r"rank[-_.]?(\d+)"


@dataclass(frozen=True, kw_only=True)
class StepColumns:
    """Which columns of a log of step times say what. In JSON a name may lead into objects: ``perf.step_s``.

    Attributes:
        rank: the rank; "" if the name of each file says it.
        rank_in_name: if there is no column for the rank: a regular expression with one group, which is the
            rank in the name of a file.
        step: the number of the step.
        epoch: the epoch; "" for none.
        seconds, ms: the duration of the step, in s or ms: one of them, or neither if there are parts.
        parts: durations of parts of the step, in the order in which they follow each other, in the unit of
            the step: each becomes an operation of that name, in upper case.
        rest: the operation of what no part covers of the step; "" for none. It often holds the wait for
            other ranks.
        time: the instant at the end of the step; "" if none is logged.
        time_is_start: whether that is the instant at its start instead.
        work: how much the step processed, such as tokens; "" for none.
    """

    rank: str = "rank"
    rank_in_name: str = _RANK_IN_NAME
    step: str = "step"
    epoch: str = ""
    seconds: str = ""
    ms: str = ""
    parts: Sequence[str] = ()
    rest: str = ""
    time: str = ""
    time_is_start: bool = False
    work: str = ""

    def __post_init__(self) -> None:
        if self.seconds and self.ms:
            raise ConfigurationError("seconds and ms: both name the duration of the step. Give one.")
        if not (self.seconds or self.ms or self.parts):
            raise ConfigurationError(
                "seconds: nothing names the duration of a step. Give the column with seconds or ms, or parts."
            )
        if self.rest and not (self.parts and self.duration):
            raise ConfigurationError("rest: it needs parts, and the duration of the step. Give both.")
        try:
            n_groups = re.compile(self.rank_in_name).groups
        except re.error as error:
            raise ConfigurationError(f"rank_in_name={self.rank_in_name!r}: {error}.") from None
        if n_groups != 1:
            raise ConfigurationError(
                f"rank_in_name={self.rank_in_name!r} must have one group: the rank, as in {_RANK_IN_NAME!r}."
            )

    @property
    def duration(self) -> str:
        """The column with the duration of the step; "" if only parts are known."""
        return self.seconds or self.ms

    @property
    def units_per_s(self) -> float:
        """How many units of the durations a second has."""
        return _MS_PER_S if self.ms else 1.0

    @property
    def needed(self) -> list[str]:
        """The columns that each record must have."""
        return [name for name in (self.step, self.duration, self.time, *self.parts) if name]

    @property
    def not_told(self) -> list[str]:
        """What such a log does not tell, by the names of ``sidecar.NOT_TOLD``."""
        return ["communication", "waits", *([] if self.time else ["instants"]), "clocks", "end"]


class StepOfRank(NamedTuple):
    """A step of a rank: -1 stands for what is not known.

    Attributes:
        number, epoch: of the step.
        end_ns: the instant that is logged, in Unix time in ns.
        work: how much it processed.
        lasts_ns: how long it took, in ns.
        parts_ns: how long each of its parts did, in ns.
    """

    number: int
    epoch: int
    end_ns: int
    work: float
    lasts_ns: int
    parts_ns: tuple[int, ...]


class StepsOfFile:
    """The steps that the lines of one file say, which are taken one after the other.

    Args:
        path: the file, whose name may tell the rank.
        columns: which columns say what.
        left_out: where lines are counted that say no step.
    """

    def __init__(self, path: Path, columns: StepColumns, left_out: LeftOut) -> None:
        self._path, self._columns, self._left_out = path, columns, left_out
        self._records = StepRecords(path, left_out)
        self._rank = _rank_in(path, columns)
        self._is_checked = False

    def in_lines(self, lines: Iterable[str]) -> Iterator[tuple[int, StepOfRank]]:
        """Yield the rank and the step of each of the next lines that says one.

        Raises:
            NotImportableError: the first record does not have such columns.
        """
        for line in lines:
            if (record := self._records.of(line)) is not None:
                try:
                    yield self.of(record)
                except Unusable as reason:
                    self._left_out.add(str(reason))

    def of(self, record: Cells) -> tuple[int, StepOfRank]:
        """Return the rank and the step of a record.

        Raises:
            Unusable: the record lacks something, or has something else there.
            NotImportableError: it is the first, and the file has no such columns.
        """
        if not self._is_checked:
            self._check(record)
            self._is_checked = True
        return self._rank_of(record), _step_of(record, self._columns)

    def _check(self, record: Cells) -> None:
        known = ", ".join(map(repr, list(record)[:20]))
        for name in self._columns.needed:
            if not has(record, name) and name not in record:
                raise NotImportableError(
                    f"paths: {str(self._path)!r} has no column {name!r}. Its columns are {known}: name one "
                    "of these."
                )
        if self._rank is None and not (self._columns.rank and has(record, self._columns.rank)):
            raise NotImportableError(
                f"paths: nothing tells the rank of {str(self._path)!r}: it has no column "
                f"{self._columns.rank!r}, and its name has no {self._columns.rank_in_name!r}. Name the "
                f"column of the rank ({known}), or the pattern in the file name."
            )

    def _rank_of(self, record: Cells) -> int:
        if self._rank is None or (self._columns.rank and has(record, self._columns.rank)):
            return whole(cell(record, self._columns.rank), MAX_RANK)
        return self._rank


def _rank_in(path: Path, columns: StepColumns) -> int | None:
    found = re.findall(columns.rank_in_name, path.name, re.IGNORECASE)
    number = found[-1] if found else ""
    return int(number) if number.isdecimal() and len(number) < 10 and int(number) <= MAX_RANK else None


def _step_of(record: Cells, columns: StepColumns) -> StepOfRank:
    def number(name: str) -> int:
        return whole(cell(record, name), _MOST_INTEGER) if name and has(record, name) else -1

    parts_ns = tuple(duration_ns(cell(record, name), columns.units_per_s) for name in columns.parts)
    stated = duration_ns(cell(record, columns.duration), columns.units_per_s) if columns.duration else 0
    return StepOfRank(
        number=whole(cell(record, columns.step), _MOST_INTEGER),
        epoch=number(columns.epoch),
        end_ns=unix_ns(cell(record, columns.time)) if columns.time else -1,
        work=amount(cell(record, columns.work)) if columns.work and has(record, columns.work) else -1.0,
        lasts_ns=max(stated, sum(parts_ns)),
        parts_ns=parts_ns,
    )
