"""What the rows of files tell of each file, for many files at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from timing_logger.reading import second_runs
from timing_logger.reading.rows_of_files import RowsOfFiles
from timing_logger.record import FIELDS, LARGEST

Numbers: TypeAlias = "dict[str, tuple[int, int]]"

_INTEGERS = tuple(field.name for field in FIELDS if field.kind == "integer")
_NEEDED = frozenset({"seq", "group", "operation"})


def first_and_last_us(frame: pd.DataFrame, rows: RowsOfFiles) -> list[list[int]]:
    """Return the first and the last instant of each file, in Unix microseconds; an empty list without one."""
    instants = frame["timestamp"].dt.as_unit("us").to_numpy("M8[us]")
    ends = [rows.reduced(end_of, instants, np.datetime64("NaT", "us")) for end_of in (np.fmin, np.fmax)]
    has_any = ~np.isnat(ends[0])
    both = np.stack([end.astype(np.int64) for end in ends], axis=1).tolist()
    return [of_file if known else [] for of_file, known in zip(both, has_any, strict=True)]


def first_and_last_s(frame: pd.DataFrame, rows: RowsOfFiles) -> Iterator[tuple[float, float]]:
    """Yield the first start and the last end of each file, in s on its own axis; NaN if unknown."""
    first = rows.reduced(np.fmin, frame["start_counter"].to_numpy(np.float64), np.nan)
    last = rows.reduced(np.fmax, frame["end_counter"].to_numpy(np.float64), np.nan)
    return zip(first.tolist(), last.tolist(), strict=True)


def inexact_numbers(frame: pd.DataFrame, rows: RowsOfFiles) -> list[dict[str, int]]:
    """Count in each file and column the integers too large to be told from their neighbours.

    They are those beyond ``LARGEST``. Columns without such integers are left out.
    """
    found: list[dict[str, int]] = [{} for _ in range(rows.n_files)]
    for name in _INTEGERS:
        if name in frame:
            values = frame[name].to_numpy(np.int64, na_value=0)
            beyond = (values > LARGEST) | (values < -LARGEST)
            counts = np.bincount(rows.of_row[beyond], minlength=rows.n_files) if beyond.any() else ()
            for its, count in zip(found, counts, strict=False):
                if count:
                    its[name] = int(count)
    return found


def clocks_and_numbers(frame: pd.DataFrame, rows: RowsOfFiles) -> list[dict[str, Any]]:
    """Return what tells whether files can be of one run: their clock, and which collectives they have.

    Returns:
        For each file ``wall_minus_counter_s``: the Unix time at which the counter stood at 0, None if
        unknown; and ``numbers``: for each of a few groups, by name and size, the first and last number of a
        collective that no rank leaves before all have come.
    """
    if not set(frame.columns) >= _NEEDED:
        return [{"wall_minus_counter_s": None, "numbers": {}} for _ in range(rows.n_files)]
    offset_s = second_runs.unix_s(frame) - frame["start_counter"].to_numpy(np.float64)
    medians_s = [second_runs.median_of_known(offset_s[of_file]) for of_file in rows.slices]
    return [
        {"wall_minus_counter_s": None if np.isnan(median_s) else median_s, "numbers": numbers}
        for median_s, numbers in zip(medians_s, _numbers(frame, rows), strict=True)
    ]


def _numbers(frame: pd.DataFrame, rows: RowsOfFiles) -> list[Numbers]:
    """Return the first and last number of each group in each file, in the order in which groups occur."""
    group, names = second_runs.groups_of(frame)
    code, n_codes = rows.of_row * len(names) + group, rows.n_files * len(names)
    synchronises = second_runs.of_names(
        frame["operation"], lambda name: name.startswith(second_runs.SYNCHRONISING)
    )
    row = np.flatnonzero(synchronises & frame["seq"].notna().to_numpy())
    seq = frame["seq"].to_numpy(np.int64, na_value=0)[row]
    least, most = (np.full(n_codes, end, np.int64) for end in (np.iinfo(np.int64).max, -1 << 63))
    np.minimum.at(least, code[row], seq)
    np.maximum.at(most, code[row], seq)
    has_any = np.bincount(code[row], minlength=n_codes) > 0
    found: list[Numbers] = [{} for _ in range(rows.n_files)]
    n_groups = [0] * rows.n_files
    for one in _as_they_occur(code, n_codes).tolist():
        file, its_group = divmod(one, len(names))
        n_groups[file] += 1
        if has_any[one] and n_groups[file] <= second_runs.MOST_GROUPS:
            found[file][names[its_group]] = int(least[one]), int(most[one])
    return found


def _as_they_occur(code: npt.NDArray[np.int64], n_codes: int) -> npt.NDArray[np.int64]:
    """Return the codes that occur, in the order of their first rows."""
    first = np.full(n_codes, len(code))
    first[code[::-1]] = np.arange(len(code))[::-1]  # the last assignment counts: that of the first row
    present = np.flatnonzero(first < len(code))
    return present[np.argsort(first[present])]
