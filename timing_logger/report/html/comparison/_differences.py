"""The table of everything that was compared."""

from __future__ import annotations

import math

from timing_logger.analysis.comparison.result import Comparison, Difference
from timing_logger.report._wording import UNKNOWN, size
from timing_logger.report.comparison_row_wording import is_sure, of_what, signed, what_differs
from timing_logger.report.html._tables import Table, table

_HEADS = [
    "what", "of", "ms", "against", "change ms", "between", "sure", "rows", "against", "bytes", "against",
    "runs", "against",
]  # fmt: skip


def differences_table(found: Comparison) -> Table:
    """Return the table of all differences, the largest first."""
    return table(
        "All that was compared, of an average step of an average rank",
        _HEADS,
        [*map(_row, found.differences)],
    )


def _row(one: Difference) -> list[str]:
    shift = one.shift
    between = f"{signed(shift.low)} to {signed(shift.high)}" if math.isfinite(shift.low) else UNKNOWN
    return [
        what_differs(one), of_what(one) or UNKNOWN, f"{one.ms:.3f}",
        f"{one.against_ms:.3f}", f"{shift.estimate:+.3f}", between, "yes" if is_sure(one) else UNKNOWN,
        *map(_count, (one.n_rows, one.against_rows)), *map(_bytes, (one.bytes, one.against_bytes)),
        f"{one.n_runs:,}", f"{one.n_against:,}",
    ]  # fmt: skip


def _count(n: float) -> str:
    return f"{n:,.3g}" if n else UNKNOWN


def _bytes(n_bytes: float | None) -> str:
    return UNKNOWN if n_bytes is None else size(n_bytes)
