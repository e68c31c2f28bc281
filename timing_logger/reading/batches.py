"""Read files in batches: their rows in one table, on one time axis, and what is known of each file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from timing_logger.reading.alignment import Alignment
from timing_logger.reading.facts_of_rows import (
    clocks_and_numbers,
    first_and_last_s,
    first_and_last_us,
    inexact_numbers,
)
from timing_logger.reading.joined_files import Piece, pieces_of
from timing_logger.reading.rows_of_files import RowsOfFiles
from timing_logger.reading.second_runs import have_recurring_numbers, second_run
from timing_logger.reading.sources import Source, joined

BATCH_BYTES = 2**25
"""The size of a batch: in smaller ones, what analyses do once for each would take longer than the rows."""

File: TypeAlias = "tuple[Source, Alignment]"
"""A file, and how its instants are mapped to the common axis."""


class Batch(NamedTuple):
    """The rows of successive files.

    Attributes:
        columns: the wanted columns by name, one file after the other.
        files: the entry of each file in ``attrs["files"]``, see ``read_timings``.
    """

    columns: dict[str, Any]
    files: list[dict[str, Any]]


def batches_of(files: Sequence[File], n_bytes: int = BATCH_BYTES) -> list[list[File]]:
    """Divide files into batches of ``n_bytes`` at most; a larger file is a batch by itself."""
    batches: list[list[File]] = []
    room = 0
    for file in files:
        its_bytes = file[0].n_bytes
        if its_bytes > room or not batches:
            batches.append([])
            room = n_bytes
        batches[-1].append(file)
        room -= its_bytes
    return batches


def read_batch(files: Sequence[File]) -> Batch:
    """Read the wanted columns of files, one after the other; what they had read is dropped.

    Raises:
        NotATimingFileError: a file has another header.
    """
    columns, clocks = files[0][0].columns, iter([clock for _, clock in files])
    read = [_read(piece, clocks, columns) for piece in pieces_of([source for source, _ in files])]
    described = [file for batch in read for file in batch.files]
    if len(read) == 1:
        return read[0]
    table = joined([batch.columns for batch in read], columns)
    return Batch({str(name): table[name] for name in table}, described)


def _read(piece: Piece, clocks: Iterator[Alignment], columns: Sequence[str]) -> Batch:
    rows = RowsOfFiles([content.n_rows for content in piece.contents])
    files = list(zip(piece.sources, [next(clocks) for _ in piece.sources], strict=True))
    described = _descriptions(piece, rows, files)
    return Batch({name: _column(piece.frame, name, rows, files) for name in columns}, described)


def _column(frame: pd.DataFrame, name: str, rows: RowsOfFiles, files: Sequence[File]) -> Any:
    if name in ("rank", "incarnation"):
        return pd.Series(rows.repeated([getattr(source.name, name) for source, _ in files]))
    if name not in ("start_s", "end_s", "clock_uncertainty_s"):
        return frame[name]
    starts_s, ends_s = frame["start_counter"].to_numpy(), frame["end_counter"].to_numpy()
    values = np.empty(len(frame))
    for its, (_, clock) in zip(rows.slices, files, strict=True):
        values[its] = _on_the_axis(name, clock, starts_s[its], ends_s[its])
    return pd.Series(values)


def _on_the_axis(
    name: str, clock: Alignment, starts_s: npt.NDArray[np.float64], ends_s: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    if name == "start_s":
        return clock.on_the_axis(starts_s)
    if name == "end_s":
        return clock.on_the_axis(ends_s)
    return np.fmax(clock.uncertainty_at(starts_s), clock.uncertainty_at(ends_s))


def _descriptions(piece: Piece, rows: RowsOfFiles, files: Sequence[File]) -> list[dict[str, Any]]:
    frame, recur = piece.frame, have_recurring_numbers(piece.frame, rows)
    of_each = zip(
        files, piece.contents, rows.slices, recur.tolist(), first_and_last_us(frame, rows),
        first_and_last_s(frame, rows), inexact_numbers(frame, rows), clocks_and_numbers(frame, rows),
        strict=True,
    )  # fmt: skip
    found = []
    for (source, clock), content, its, recurs, ends_us, ends_s, inexact, numbers in of_each:
        may_be_two = recurs or content.headers
        source.second_run = second_run(frame.iloc[its], source.sidecar, content.headers) if may_be_two else ""
        found.append({
            **source.description(content),
            "inexact": inexact,
            "span_unix_ns": source.lifetime_with(ends_us),
            "second_run": source.second_run,
            **numbers,
            "clock": clock.description(*ends_s),
        })  # fmt: skip
    return found
