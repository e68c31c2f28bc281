"""In which functions of the program ranks were while they worked, and while no row told at what."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrame

from timing_logger.analysis.accounting.part import LineStretches, map_stretches_of_main_thread
from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.arrays import Ints
from timing_logger.analysis.rows.tables import opened

_OF_CODE = ["function", "file"]
_WITHIN = ["rank", "incarnation", "operation"]
_NOTHING = {
    "rank": np.zeros(0, np.int64), "incarnation": np.zeros(0, np.int64), "operation": [], "function": [],
    "file": [], "line": np.zeros(0, np.int64), "library_call": [], "samples": np.zeros(0, np.int64),
    "share": np.zeros(0),
}  # fmt: skip

_OUTSIDE = -2
"""In place of an operation: the main thread was blocked in communication, or the process had no row yet."""


def sampled_code(timings: IntoDataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """Tell in which functions of the program ranks were, for each operation of their own and where no row is.

    A sample counts for the operation that :func:`account` has at its instant. Its share is an estimate: of
    ``n`` samples it has a standard error of ``sqrt(share * (1 - share) / n)``.

    Args:
        timings: as ``read_timings`` returns.
        samples: as ``read_stack_samples`` returns, of the same files.

    Returns:
        One row for each rank, operation and function, by rank; of each rank the operation with most samples
        first, and of that the function with most. Samples while a rank was blocked in communication are in
        none, and those of processes whose main thread does not tell what they did.

    Columns:
        rank, incarnation.
        operation: of the row; "" if no row covers the time.
        function, file: of the program's own code, see
            :class:`timing_logger.schema.timing_files.StackSample`.
        line: the line in which most of these samples are.
        library_call: what was called in a library in most of them; "" if nothing.
        samples: their number.
        share: of all samples of the rank in the operation, in [0, 1].
    """
    return code_table([map_stretches_of_main_thread(opened(timings, COLUMNS_OF["account"]))], samples)


def code_table(own: Sequence[LineStretches], samples: pd.DataFrame) -> pd.DataFrame:
    """Return what :func:`sampled_code` returns.

    Args:
        own: how processes spent the time in which they were not blocked.
        samples: those of the processes.
    """
    stretches = LineStretches.joined(list(own)) if own else LineStretches.none()
    operation = _operation_of_each(stretches, samples)
    names = np.array([*stretches.operations, ""], dtype=object)
    inside = np.flatnonzero(operation != _OUTSIDE)
    told = samples.iloc[inside].assign(operation=names[operation[inside]])
    if told.empty:
        nothing: pd.DataFrame = pd.DataFrame(_NOTHING)
        return nothing
    by_code = told.groupby([*_WITHIN, *_OF_CODE], as_index=False, sort=False)
    found = by_code.agg(line=("line", _most), library_call=("library_call", _most), samples=("line", "size"))
    total = found.groupby(_WITHIN)["samples"].transform("sum")
    found = found.assign(share=found["samples"] / total, total=total)
    order = ["rank", "incarnation", "total", "operation", "samples"]
    found = found.sort_values(order, ascending=[True, True, False, True, False], kind="stable")
    table: pd.DataFrame = found[list(_NOTHING)].reset_index(drop=True)
    return table


def _most(values: pd.Series) -> object:
    return values.value_counts(sort=True).index[0]


def _operation_of_each(stretches: LineStretches, samples: pd.DataFrame) -> Ints:
    """Return for each sample the position of its operation among the names; -1 where no row is."""
    found = np.full(len(samples), _OUTSIDE)
    at_s = samples["counter"].to_numpy(np.float64)
    process = samples[["rank", "incarnation"]].to_numpy(np.int64)
    for rank, incarnation in np.unique(process, axis=0).tolist():
        its = np.flatnonzero((process == (rank, incarnation)).all(axis=1))
        mine = np.flatnonzero((stretches.rank == rank) & (stretches.incarnation == incarnation))
        if not len(mine):
            continue
        mine = mine[np.argsort(stretches.start_s[mine], kind="stable")]
        last = np.searchsorted(stretches.start_s[mine], at_s[its], side="right") - 1
        inside = (last >= 0) & (at_s[its] < stretches.end_s[mine][last])
        found[its] = np.where(inside, stretches.operation[mine][last], _OUTSIDE)
    return found
