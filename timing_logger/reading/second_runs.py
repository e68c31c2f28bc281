"""Tell whether the rows of one file look like those of two runs, or of two ranks, that somebody joined.

A process numbers the operations of each group from 0, once. A group that is made again under its old name
begins again, too; so a number that occurs twice says nothing alone. It does where a thread would have been in
one collective twice at a time, where the rows are of two clocks, where they are from before or after the time
in which the process ran, or where a second header stands between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from timing_logger.reading.content import Bools, RowsOfFiles
from timing_logger.results import criteria
from timing_logger.schema.record import HOST_CLOCK, NS_PER_S, WAIT, is_message

SYNCHRONISING = ("ALLREDUCE", "ALLGATHER", "ALLTOALL", "REDUCE_SCATTER", "BARRIER")
MOST_GROUPS = 64
_NEEDED = frozenset({"seq", "group", "operation", "thread", "clock"})

_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]


class _Numbered(NamedTuple):
    """The collectives of a file that have a number, in the order in which they began.

    Attributes:
        row: position in the table.
        group: a number for name and size of the group.
        seq: the number of the collective in its group.
        earlier: how many earlier rows have the same group and number.
        start_s, end_s: on the counter of the process.
        unix_s: when it began, by the wall clock.
    """

    row: _Ints
    group: _Ints
    seq: _Ints
    earlier: _Ints
    start_s: _Floats
    end_s: _Floats
    unix_s: _Floats


def have_recurring_numbers(frame: pd.DataFrame, rows: RowsOfFiles) -> Bools:
    """Tell of each file whether a number of a collective occurs twice in it; if not, it is of one process.

    Args:
        frame: the rows of some files, one file after the other.
        rows: which rows are whose.
    """
    found = np.zeros(rows.n_files, np.bool_)
    if not set(frame.columns) >= _NEEDED:
        return found
    row = np.flatnonzero(frame["seq"].notna().to_numpy() & of_names(frame["operation"], _is_collective))
    group, names = groups_of(frame)
    key, seq = (rows.of_row * len(names) + group)[row], frame["seq"].to_numpy(np.int64, na_value=0)[row]
    order = np.argsort(key, kind="stable")
    rises = (np.diff(seq[order]) > 0) | (np.diff(key[order]) > 0)
    if not rises.all():
        twice = pd.DataFrame({"key": key, "seq": seq}).duplicated().to_numpy()
        found[rows.of_row[row[twice]]] = True
    return found


def second_run(frame: pd.DataFrame, sidecar: Mapping[str, Any] | None, headers: Sequence[int]) -> str:
    """State why the rows of one file look as if they were of two processes; "" if they do not.

    Args:
        frame: the rows, in the order of the file. Without the columns that number collectives, only a second
            header may tell.
        sidecar: what the sidecar states; None without one.
        headers: the number of rows before each further header of a timing file.
    """
    for row in headers:
        if _begins_again(frame, row):
            return f"below a second header, after {row} rows, it begins again"
    if not set(frame.columns) >= _NEEDED:
        return ""
    found = _numbered(frame)
    if not found.earlier.any():
        return ""
    pairs = _pairs(found)
    checks = (
        _at_one_time(frame, found, *pairs),
        _two_clocks(found, *pairs),
        *_outside(found, sidecar),
        _far_away(frame, found, sidecar),
    )
    return next(filter(None, checks), "")


def _begins_again(frame: pd.DataFrame, row: int) -> bool:
    """Tell whether numbers, counters or iterations go back at a row; in a later part of a file they go on."""
    before, after = frame.iloc[:row], frame.iloc[row:]
    back_s = before["end_counter"].max() - after["end_counter"].min()
    if back_s > criteria.MAX_APART_S:  # rows are written as they end
        return True
    found = _numbered(frame) if set(frame.columns) >= _NEEDED else None
    if found is not None and len(found.row):
        return bool(((found.earlier > 0) & (found.row >= row)).any())
    if not {"iteration", "epoch"} <= set(frame.columns):
        return False
    last, first = (_ends(part, "iteration", place) for part, place in ((before, -1), (after, 0)))
    epoch, next_epoch = (_ends(part, "epoch", place) for part, place in ((before, -1), (after, 0)))
    return last - first > 1 and not next_epoch > epoch


def _ends(rows: pd.DataFrame, name: str, place: int) -> float:
    """Return the first or last known value of a column; NaN without one."""
    known = rows[name].dropna()
    return float(known.iloc[place]) if len(known) else float("nan")


def _numbered(frame: pd.DataFrame) -> _Numbered:
    numbered = frame["seq"].notna().to_numpy() & of_names(frame["operation"], _is_collective)
    row = np.flatnonzero(numbered)
    start_s = frame["start_counter"].to_numpy(np.float64)
    row = row[np.argsort(start_s[row], kind="stable")]
    group, _ = groups_of(frame)
    group, seq = group[row], frame["seq"].to_numpy(np.int64, na_value=0)[row]
    earlier = np.zeros(len(row), np.int64)
    if not _all_rise(group, seq):
        keys = pd.DataFrame({"group": group, "seq": seq})
        earlier = keys.groupby(["group", "seq"]).cumcount().to_numpy(np.int64)
    end_s = frame["end_counter"].to_numpy(np.float64)
    return _Numbered(row, group, seq, earlier, start_s[row], end_s[row], unix_s(frame)[row])


def groups_of(frame: pd.DataFrame) -> tuple[_Ints, list[str]]:
    """Return the number of each row's group, by name and size, and the name and size of each number."""
    names, distinct = _coded(frame["group"])
    sizes = frame["group_size"].to_numpy(np.int64, na_value=-1) if "group_size" in frame else 0 * names
    of_size, distinct_sizes = _coded_numbers(sizes)
    number, pairs = _coded_numbers(names.astype(np.int64) * len(distinct_sizes) + of_size)
    return number.astype(np.int64), [
        f"{distinct[pair // len(distinct_sizes)]}/{distinct_sizes[pair % len(distinct_sizes)]}"
        for pair in pairs
    ]


def _coded(column: pd.Series[Any]) -> tuple[_Ints, Any]:
    """Return texts as indices into distinct texts, which a categorical has already."""
    if isinstance(column.dtype, pd.CategoricalDtype) and len(column.cat.categories):
        return column.cat.codes.to_numpy(), column.cat.categories
    return pd.factorize(column)


def _coded_numbers(values: _Ints) -> tuple[_Ints, _Ints]:
    if len(values) and values.min() == values.max():  # mostly, and hashing is slow
        return np.zeros(len(values), np.int64), values[:1]
    return pd.factorize(values)


def unix_s(frame: pd.DataFrame) -> _Floats:
    """Return when each row began by the wall clock, in s; NaN where unknown."""
    instants = frame["timestamp"].dt.as_unit("us").to_numpy("M8[us]")
    return np.where(np.isnat(instants), np.nan, instants.astype(np.int64) / 1e6)


def _all_rise(group: _Ints, seq: _Ints) -> bool:
    """Tell whether the numbers of each group rise all the time, as they mostly do; this is found fast."""
    n_groups = group.max(initial=-1) + 1
    return n_groups <= MOST_GROUPS and all(
        bool((np.diff(seq[group == number]) > 0).all()) for number in range(n_groups)
    )


def of_names(column: pd.Series[Any], test: Any) -> npt.NDArray[np.bool_]:
    """Apply a test to the name of each row, in upper case and without blanks around it."""
    codes, names = _coded(column)
    return np.array([test(str(name).strip().upper()) for name in names], np.bool_)[codes]


def _is_collective(name: str) -> bool:
    return not is_message(name) and name != WAIT


def _pairs(found: _Numbered) -> tuple[_Ints, _Ints]:
    """Return the positions of the first and of the second row of each number that occurs twice."""
    rows = pd.DataFrame({"group": found.group, "seq": found.seq, "at": np.arange(len(found.seq))})
    firsts, seconds = rows[found.earlier == 0], rows[found.earlier == 1]
    both = seconds.merge(firsts, on=["group", "seq"], suffixes=("_second", "_first"))
    return both["at_first"].to_numpy(np.int64), both["at_second"].to_numpy(np.int64)


def _at_one_time(frame: pd.DataFrame, found: _Numbered, first: _Ints, second: _Ints) -> str:
    """Find calls of one thread that blocked it and had the same number at one time."""
    blocks = of_names(frame["operation"], lambda name: name.startswith(SYNCHRONISING))
    blocks &= of_names(frame["clock"], HOST_CLOCK.upper().__eq__)
    thread = pd.factorize(frame["thread"])[0]
    same = (thread[found.row[first]] == thread[found.row[second]]) & blocks[found.row[first]]
    at_once = same & blocks[found.row[second]] & (found.start_s[second] < found.end_s[first])
    n = int(at_once.sum())
    return f"in {n} of its collectives one thread is twice at a time" if n > 1 and 2 * n > len(first) else ""


def _two_clocks(found: _Numbered, first: _Ints, second: _Ints) -> str:
    offset_s = found.unix_s - found.start_s
    apart_s = abs(np.nan_to_num(median_of_known(offset_s[second]) - median_of_known(offset_s[first])))
    return (
        f"its rows are of two clocks that are {apart_s:.0f} s apart" if apart_s > criteria.MAX_APART_S else ""
    )


def _outside(found: _Numbered, sidecar: Mapping[str, Any] | None) -> Iterator[str]:
    """Find rows from before the process began, or after the sidecar was last written."""
    stated = [(sidecar or {}).get(key) for key in ("started_unix_ns", "updated_unix_ns")]
    began, ended = (value / NS_PER_S if isinstance(value, int) else np.nan for value in stated)
    before, after = int((found.unix_s < began - criteria.MAX_APART_S).sum()), 0
    if (sidecar or {}).get("closed"):
        after = int((found.unix_s > ended + criteria.MAX_APART_S).sum())
    for n, when in ((before, "before its process began"), (after, "after its process had ended")):
        if n:
            yield f"{n} of its collectives are from {when}, as its sidecar says"


def _far_away(frame: pd.DataFrame, found: _Numbered, sidecar: Mapping[str, Any] | None) -> str:
    """Find that all groups begin again long after, and iterations with them.

    A process may do so itself, as it trains a second time; then its sidecar says that it ran all the time.
    """
    if sidecar:
        return ""
    ended_s = np.maximum.accumulate(np.fmax(found.start_s, np.nan_to_num(found.end_s, nan=-np.inf)))
    gap_s = found.start_s[1:] - ended_s[:-1]
    at = int(np.argmax(gap_s)) + 1
    if gap_s[at - 1] <= criteria.MAX_APART_S:
        return ""
    begins_again = all(
        found.seq[at:][found.group[at:] == group].min() <= found.seq[:at][found.group[:at] == group].max()
        for group in np.intersect1d(found.group[:at], found.group[at:])
    )
    goes_back = True
    if "iteration" in frame:
        iteration = frame["iteration"].to_numpy(np.float64, na_value=np.nan)[found.row]
        goes_back = not np.fmin.reduce(iteration[at:]) > np.fmax.reduce(iteration[:at])
    if not (begins_again and goes_back and found.earlier[at:].any()):
        return ""
    return f"the numbers of its collectives begin again {gap_s[at - 1]:.0f} s later"


def median_of_known(values: _Floats) -> float:
    """Return the median of the values that are not NaN; NaN if there is none."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")
