"""The table of what transfers cost by their size."""

from __future__ import annotations

import narwhals as nw
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.stragglers.case import Case
from timing_logger.analysis.stragglers.verdict import judgement_of
from timing_logger.analysis.table_types import Schema
from timing_logger.analysis.tables import like, opened
from timing_logger.analysis.what_if.transfer_models import models_of

_OF_COSTS: Schema = {
    "operation": nw.String, "ranks": nw.Int64, "hosts": nw.Int64, "count": nw.Int64,
    "least_bytes": nw.Float64, "most_bytes": nw.Float64, "latency_us": nw.Float64, "gb_per_s": nw.Float64,
    "error": nw.Float64,
}  # fmt: skip
_BYTES_PER_GB = 1e9


def transfer_costs(timings: IntoDataFrameT) -> IntoDataFrameT:
    """Fit latency and bandwidth to the transfers of a run.

    A transfer of b bytes takes a latency and b divided by a bandwidth (Hockney, Parallel Computing 20, 1994).
    Only transfer times without waiting count.

    Args:
        timings: as ``read_timings`` returns.

    Returns:
        One row for each operation, number of ranks and number of hosts of which messages of at least two
        classes of sizes were measured, that with the most transfers first.

    Columns:
        operation: the base operation; ``SEND`` for messages.
        ranks: how many ranks take part. hosts: on how many hosts; 0 if unknown.
        count: number of transfers.
        least_bytes, most_bytes: the sizes between which it was measured.
        latency_us: what a transfer takes without any bytes, in us.
        gb_per_s: bytes of a message (1e9) for each further second; infinite if size makes no difference.
        error: how far the medians of classes of sizes are from this, as a fraction: the root mean square.
    """
    frame = opened(timings, COLUMNS_OF["stragglers"])
    return costs_table(judgement_of(timings, None).case, frame)


def costs_table(case: Case, frame: nw.DataFrame[IntoDataFrameT]) -> IntoDataFrameT:
    """Return :func:`transfer_costs` in the library of ``frame``."""
    models = sorted(models_of(case).values(), key=lambda one: (-one.n, one.family))
    rows = [
        (
            one.family.operation, one.family.n_ranks, one.family.n_hosts, one.n, one.least_bytes,
            one.most_bytes, 1e3 * one.latency_ms, _gb_per_s(one.ms_per_byte), one.error,
        )
        for one in models
    ]  # fmt: skip
    return like(frame, _OF_COSTS, rows)


def _gb_per_s(ms_per_byte: float) -> float:
    return 1e3 / ms_per_byte / _BYTES_PER_GB if ms_per_byte > 0 else float("inf")
