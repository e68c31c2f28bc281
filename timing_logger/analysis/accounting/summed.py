"""Sum the account of a run by line, by what it did in which operation, and by the rank that it waited for."""

from __future__ import annotations

from typing import NamedTuple

import narwhals as nw
import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.accounting.blocked import NO_RANK
from timing_logger.analysis.accounting.lines import LINE, AccountLines
from timing_logger.analysis.accounting.part import Spent
from timing_logger.analysis.accounting.run import AccountOfRun
from timing_logger.analysis.accounting.stretches import BLOCKED, NOT_TIMED, OWN, WHAT
from timing_logger.analysis.rows.arrays import coded_text, dense_codes, in_few_bytes
from timing_logger.analysis.rows.grouping import any_row_of, sums
from timing_logger.analysis.rows.table_types import Floats, Ints, Schema
from timing_logger.analysis.rows.tables import like, nullable_integers

_SCHEMA: Schema = {
    "rank": nw.Int64, "incarnation": nw.Int64, "thread": nw.String, "is_main": nw.Boolean, "what": nw.String,
    "operation": nw.String, "count": nw.Int64, "ms": nw.Float64, "share": nw.Float64,
}  # fmt: skip

_COLUMNS = (
    "rank", "incarnation", "thread", "is_main", "what", "operation", "waited_for", "count", "ms", "share"
)  # fmt: skip


class _Times(NamedTuple):
    """Times of lines by what they did, with the operation as an index into a list of names."""

    line: Ints
    what: Ints
    operation: Ints
    rank: Ints
    n: Ints
    ms: Floats

    def summed(self) -> _Times:
        """Sum the times of each line in which it did the same; the result is in the order of all these."""
        key = dense_codes(self.line, self.what, self.operation, self.rank)
        one = any_row_of(key)
        n, ms = (sums(values, key, len(one)) for values in (self.n, self.ms))
        return self.only(one)._replace(n=n.astype(np.int64), ms=ms)

    def only(self, wanted: Ints) -> _Times:
        """Return the entries at these positions."""
        return _Times._make(values[wanted] for values in self)


def account_table(run: AccountOfRun, frame: nw.DataFrame[IntoDataFrameT]) -> IntoDataFrameT:
    """Return the table that ``account`` returns, in the library of ``frame``."""
    lines = run.lines
    called, names = coded_text(run.rows.met.frame, "operation")
    names = ["", *names, *sorted({name for spent, _ in run.spent for name in spent.operation})]
    code_of = {name: code for code, name in reversed([*enumerate(names)])}
    parts = [
        _blocked(run, called).summed(),
        *(_not_blocked(spent, first, code_of) for spent, first in run.spent),
    ]
    each = _Times._make(np.concatenate(column) for column in zip(*parts, strict=True)).summed()
    each = each.only(np.lexsort((-each.ms, each.line)))
    columns = _columns(lines, each, names)
    table = nw.from_native(like(frame, _SCHEMA, list(zip(*columns, strict=True))), eager_only=True)
    for_whom = np.where(each.rank == NO_RANK, np.nan, each.rank)
    return table.with_columns(nullable_integers(table, "waited_for", for_whom)).select(*_COLUMNS).to_native()


def _columns(lines: AccountLines, each: _Times, names: list[str]) -> list[list[object]]:
    """Return the columns of the table, as ``_SCHEMA`` names them.

    Args:
        lines: all lines.
        each: the times; one row of the table for each.
        names: the operations by their codes.
    """
    line = each.line
    return [
        lines.rank[line].tolist(),
        lines.incarnation[line].tolist(),
        [lines.thread[one] for one in line.tolist()],
        lines.is_main[line].tolist(),
        [WHAT[what] for what in each.what.tolist()],
        [names[operation] for operation in each.operation.tolist()],
        each.n.tolist(),
        each.ms.tolist(),
        (each.ms / lines.wall_ms[line]).tolist(),
    ]


def _blocked(run: AccountOfRun, called: Ints) -> _Times:
    blocked = run.blocked
    line = run.rows.met.frame[LINE].to_numpy()[blocked.row]
    ones = in_few_bytes(np.ones(len(line), np.int64))
    operation = in_few_bytes(called)[blocked.row] + 1
    return _Times(line, blocked.what + BLOCKED, operation, blocked.rank, ones, blocked.ms)


def _not_blocked(spent: Spent, first_line: int, code_of: dict[str, int]) -> _Times:
    operation = np.array([code_of[name] for name in spent.operation], np.int64)
    what = np.where(operation == code_of[""], NOT_TIMED, OWN)
    return _Times(
        spent.line + first_line, what, operation, np.full(len(what), NO_RANK), spent.n, spent.ms
    )  # fmt: skip
