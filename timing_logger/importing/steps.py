"""Import the step times that a trainer logged: JSON lines or CSV, with columns that the caller names.

Each step becomes rows of the rank's own work: one for each phase, or one for the step.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from timing_logger.errors import ConfigurationError, NotImportableError, TooLargeError
from timing_logger.importing.imported import Imported, LeftOut
from timing_logger.importing.log_folder import LogFolder, Process, new_log_folder
from timing_logger.importing.source_files import AnyPath, files_at
from timing_logger.importing.step_records import (
    Cells,
    Unusable,
    amount,
    cell,
    duration_ns,
    has,
    records_of,
    require,
    unix_ns,
    whole,
)
from timing_logger.record import HOST_CLOCK, OK, RawRecord
from timing_logger.run_info import MAX_RANK

STEP = "STEP"
"""The operation of a step of which no phases are known."""

MOST_STEPS = 10**7
"""Steps of all ranks together: a billion bytes of them at most are held at a time."""

_ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".txt", ".log")
_MOST_INTEGER = 2**62
_NS_PER_S = 10**9
_THREAD = "MainThread"
_RANK_IN_NAME = r"rank[-_.]?(\d+)"
_MS_PER_S = 1e3


@dataclass(frozen=True, kw_only=True)
class StepColumns:
    """Which columns of a log of step times say what. In JSON a name may lead into objects: ``perf.step_s``.

    Attributes:
        rank: the rank; "" if the name of each file says it.
        rank_in_name: if there is no column for the rank: a regular expression with one group, which is the
            rank in the name of a file.
        step: the number of the step.
        epoch: the epoch; "" for none.
        seconds, ms: the duration of the step, in s or ms: one of them, or neither if there are phases.
        phases: durations of parts of the step, in the order in which they follow each other, in the unit of
            the step: each becomes an operation of that name, in upper case.
        rest: the operation of what no phase covers of the step; "" for none. It often holds the wait for
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
    phases: Sequence[str] = ()
    rest: str = ""
    time: str = ""
    time_is_start: bool = False
    work: str = ""

    def __post_init__(self) -> None:
        if self.seconds and self.ms:
            raise ConfigurationError("seconds and ms: both name the duration of the step. Give one.")
        if not (self.seconds or self.ms or self.phases):
            raise ConfigurationError(
                "seconds: nothing names the duration of a step. Give the column with seconds or ms, or "
                "phases."
            )
        if self.rest and not (self.phases and self.duration):
            raise ConfigurationError("rest: it needs phases, and the duration of the step. Give both.")
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
        """The column with the duration of the step; "" if only phases are known."""
        return self.seconds or self.ms

    @property
    def units_per_s(self) -> float:
        """How many units of the durations a second has."""
        return _MS_PER_S if self.ms else 1.0

    @property
    def needed(self) -> list[str]:
        """The columns that each record must have."""
        return [name for name in (self.step, self.duration, self.time, *self.phases) if name]

    @property
    def not_told(self) -> list[str]:
        """What such a log does not tell, by the names of ``run_info.NOT_TOLD``."""
        return ["communication", "waits", *([] if self.time else ["instants"]), "clocks", "end"]


class _Step(NamedTuple):
    """A step of a rank: -1 stands for what is not known."""

    number: int
    epoch: int
    end_ns: int
    work: float
    lasts_ns: int
    phases_ns: tuple[int, ...]


@dataclass
class _Rank:
    """The steps of a rank, in the order of its log, each as numbers of equal width."""

    files: dict[Path, None] = field(default_factory=dict)
    left_out: LeftOut = field(default_factory=LeftOut)
    integers: array[int] = field(default_factory=lambda: array("q"))
    works: array[float] = field(default_factory=lambda: array("d"))

    def add(self, step: _Step) -> None:
        self.integers.extend((step.number, step.epoch, step.end_ns, step.lasts_ns, *step.phases_ns))
        self.works.append(step.work)

    def steps(self) -> Iterator[_Step]:
        width = len(self.integers) // max(1, len(self.works))
        for i, work in enumerate(self.works):
            number, epoch, end_ns, lasts_ns, *phases_ns = self.integers[i * width : (i + 1) * width]
            yield _Step(number, epoch, end_ns, work, lasts_ns, tuple(phases_ns))


def import_steps(paths: AnyPath | Sequence[AnyPath], output: AnyPath, columns: StepColumns) -> Imported:
    """Make timing files from step times that a trainer logged as JSON lines, or as CSV with a header.

    Where no instant is logged, the steps of a rank follow each other from the moment of the import on.

    Args:
        paths: files, folders or patterns; gzip and Zstandard are read, too.
        output: the folder to make; it may exist if it is empty.
        columns: which columns say what.

    Raises:
        NotImportableError: there are no such files, they lack a column, or no record can be used.
        TooLargeError: the files have more than :data:`MOST_STEPS` steps.
        LogPathError: the output exists already and is not empty, or cannot be made.
        ConfigurationError: a file is compressed with Zstandard, and nothing installed reads that.
    """
    files = files_at(paths, _ENDINGS)
    with new_log_folder(output, "steps") as folder:
        ranks, left_out = _read(files, columns)
        if not ranks:
            told = "; ".join(f"{n}: {reason}" for reason, n in left_out.most_common(3))
            raise NotImportableError(
                f"paths: no step could be read from {len(files)} files{told and ': '}{told}. Are the columns "
                "named as they are in the files?"
            )
        _write(folder, ranks, left_out, columns)
    return Imported(
        Path(output), folder.ranks, folder.n_rows, dict(left_out), columns.not_told, _notes(columns)
    )


def _notes(columns: StepColumns) -> list[str]:
    if columns.time:
        return []
    return ["No instants are logged, so the steps of each rank follow each other without gaps."]


# -- reading -----------------------------------------------------------------------------------------


def _read(files: Sequence[Path], columns: StepColumns) -> tuple[dict[int, _Rank], LeftOut]:
    ranks: dict[int, _Rank] = {}
    left_out = LeftOut()
    n_steps = 0
    for path in files:
        rank_of_file = _rank_in(path, columns)
        for i, record in enumerate(records_of(path, left_out)):
            if i == 0:
                _check(path, record, columns, rank_of_file)
            try:
                rank = _rank_of(record, columns, rank_of_file)
                step = _step_of(record, columns)
            except Unusable as reason:
                left_out.add(str(reason))
                continue
            n_steps += 1
            if n_steps > MOST_STEPS:
                raise TooLargeError(f"paths: there are more than {MOST_STEPS} steps. Import fewer at a time.")
            of_rank = ranks.setdefault(rank, _Rank())
            of_rank.files[path] = None
            of_rank.add(step)
    return ranks, left_out


def _rank_in(path: Path, columns: StepColumns) -> int | None:
    found = re.findall(columns.rank_in_name, path.name, re.IGNORECASE)
    number = found[-1] if found else ""
    return int(number) if number.isdecimal() and len(number) < 10 and int(number) <= MAX_RANK else None


def _check(path: Path, record: Cells, columns: StepColumns, rank_of_file: int | None) -> None:
    require(path, record, columns.needed)
    if rank_of_file is None and not (columns.rank and has(record, columns.rank)):
        known = ", ".join(map(repr, list(record)[:20]))
        raise NotImportableError(
            f"paths: nothing tells the rank of {str(path)!r}: it has no column {columns.rank!r}, and its "
            f"name has no {columns.rank_in_name!r}. Name the column of the rank ({known}), or the pattern in "
            "the file name."
        )


def _rank_of(record: Cells, columns: StepColumns, rank_of_file: int | None) -> int:
    if columns.rank and (rank_of_file is None or has(record, columns.rank)):
        return whole(cell(record, columns.rank), MAX_RANK)
    if rank_of_file is None:
        raise Unusable("a record without a rank")
    return rank_of_file


def _step_of(record: Cells, columns: StepColumns) -> _Step:
    def number(name: str) -> int:
        return whole(cell(record, name), _MOST_INTEGER) if name and has(record, name) else -1

    phases_ns = tuple(duration_ns(cell(record, name), columns.units_per_s) for name in columns.phases)
    stated = duration_ns(cell(record, columns.duration), columns.units_per_s) if columns.duration else 0
    return _Step(
        number=whole(cell(record, columns.step), _MOST_INTEGER),
        epoch=number(columns.epoch),
        end_ns=unix_ns(cell(record, columns.time)) if columns.time else -1,
        work=amount(cell(record, columns.work)) if columns.work and has(record, columns.work) else -1.0,
        lasts_ns=max(stated, sum(phases_ns)),
        phases_ns=phases_ns,
    )


# -- writing -----------------------------------------------------------------------------------------


def _write(folder: LogFolder, ranks: dict[int, _Rank], left_out: LeftOut, columns: StepColumns) -> None:
    first_ns = min(step.end_ns for rank in ranks.values() for step in rank.steps())
    wall_offset_ns = _origin_ns(
        first_ns if columns.time else min(_modified_ns(rank) for rank in ranks.values())
    )
    for number in sorted(ranks):
        rank = ranks[number]
        rows = list(_rows_of(rank, columns, wall_offset_ns))
        of_all = left_out if number == min(ranks) else {}
        process = Process(number, wall_offset_ns=wall_offset_ns)
        folder.add(process, rows, list(rank.files), of_all, columns.not_told)


def _modified_ns(rank: _Rank) -> int:
    return min(file.stat().st_mtime_ns for file in rank.files)


def _origin_ns(first_ns: int) -> int:
    """Return an instant long before the first, in whole seconds, from which all others are counted.

    Readers take instants for float64: of numbers as small as these no nanosecond is lost.
    """
    return max(0, first_ns // _NS_PER_S - 10**6) * _NS_PER_S


def _rows_of(rank: _Rank, columns: StepColumns, wall_offset_ns: int) -> Iterator[RawRecord]:
    at_ns = 10**6 * _NS_PER_S
    for step in rank.steps():
        if step.end_ns >= 0:
            began_ns = step.end_ns - (0 if columns.time_is_start else step.lasts_ns)
            at_ns = max(0, began_ns - wall_offset_ns)
        yield from _rows_of_step(step, columns, at_ns)
        at_ns += step.lasts_ns


def _rows_of_step(step: _Step, columns: StepColumns, at_ns: int) -> Iterator[RawRecord]:
    parts = list(zip(columns.phases, step.phases_ns, strict=True)) or [(STEP, step.lasts_ns)]
    if columns.rest:
        parts.append((columns.rest, step.lasts_ns - sum(step.phases_ns)))
    for i, (name, lasts_ns) in enumerate(parts):
        work = step.work if i == 0 and step.work >= 0 else None
        yield _row(name, step, at_ns, lasts_ns, work)
        at_ns += lasts_ns


def _row(name: str, step: _Step, start_ns: int, lasts_ns: int, work: float | None) -> RawRecord:
    epoch = step.epoch if step.epoch >= 0 else None
    return (
        step.number, epoch, "", name, "", None, start_ns, start_ns + lasts_ns, HOST_CLOCK, "", None, None,
        None, _THREAD, OK, "", None, work,
    )  # fmt: skip
