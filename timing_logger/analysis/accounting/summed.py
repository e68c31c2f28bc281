"""Sum the account of a run by line, by what it did in which operation, and by the rank that it waited for."""

from __future__ import annotations

from typing import NamedTuple

import narwhals as nw
import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.accounting.blocked import NO_RANK
from timing_logger.analysis.accounting.lines import LINE, Lines
from timing_logger.analysis.accounting.part import Spent
from timing_logger.analysis.accounting.run import AccountOfRun
from timing_logger.analysis.grouping import any_row_of, sums
from timing_logger.analysis.tables import (
    Floats,
    Ints,
    Schema,
    coded_text,
    dense_codes,
    like,
    nullable_integers,
)

OWN, NOT_TIMED = 0, 1
WHAT = ["own work", "not timed", "transfer", "waiting", "not matched"]
"""What a line did: first what it did while it was not blocked, then by the codes of ``Blocked.what``."""

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


def account_table(run: AccountOfRun, frame: nw.DataFrame[IntoDataFrameT]) -> IntoDataFrameT:
    """Return the table that ``account`` returns, in the library of ``frame``."""
    lines = run.lines
    called, names = coded_text(run.rows.met.frame, "operation")
    names = ["", *names, *sorted({name for spent, _ in run.spent for name in spent.operation})]
    code_of = {name: code for code, name in reversed([*enumerate(names)])}
    parts = [_blocked(run, called), *(_not_blocked(spent, first, code_of) for spent, first in run.spent)]
    each = _Times._make(np.concatenate(column) for column in zip(*parts, strict=True))
    key = dense_codes(each.line, each.what, each.operation, each.rank)
    n_keys = int(key.max(initial=-1)) + 1
    ms, n = sums(each.ms, key, n_keys), sums(each.n, key, n_keys)
    one = any_row_of(key)
    order = one[np.lexsort((-ms, each.line[one]))]
    columns = _columns(lines, each, names, order, n[key[order]].astype(np.int64), ms[key[order]])
    table = nw.from_native(like(frame, _SCHEMA, list(zip(*columns, strict=True))), eager_only=True)
    for_whom = np.where(each.rank[order] == NO_RANK, np.nan, each.rank[order])
    return table.with_columns(nullable_integers(table, "waited_for", for_whom)).select(*_COLUMNS).to_native()


def _columns(
    lines: Lines, each: _Times, names: list[str], order: Ints, n: Ints, ms: Floats
) -> list[list[object]]:
    """Return the columns of the table, as ``_SCHEMA`` names them.

    Args:
        lines: all lines.
        each: the times.
        names: the operations by their codes.
        order: for each row of the table an entry of ``each``.
        n, ms: of each row of the table.
    """
    line = each.line[order]
    return [
        lines.rank[line].tolist(),
        lines.incarnation[line].tolist(),
        [lines.thread[one] for one in line.tolist()],
        lines.is_main[line].tolist(),
        [WHAT[what] for what in each.what[order].tolist()],
        [names[operation] for operation in each.operation[order].tolist()],
        n.tolist(),
        ms.tolist(),
        (ms / lines.wall_ms[line]).tolist(),
    ]


def _blocked(run: AccountOfRun, called: Ints) -> _Times:
    blocked = run.blocked
    line = run.rows.met.frame[LINE].to_numpy().astype(np.int64)[blocked.row]
    ones = np.ones(len(line), np.int64)
    return _Times(line, blocked.what + 2, called[blocked.row] + 1, blocked.rank, ones, blocked.ms)


def _not_blocked(spent: Spent, first_line: int, code_of: dict[str, int]) -> _Times:
    operation = np.array([code_of[name] for name in spent.operation], np.int64)
    what = np.where(operation == code_of[""], NOT_TIMED, OWN)
    return _Times(
        spent.line + first_line, what, operation, np.full(len(what), NO_RANK), spent.n, spent.ms
    )  # fmt: skip
