"""The table of what transfers cost by their size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import narwhals as nw
import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.arrays import Floats, Ints, Schema
from timing_logger.analysis.rows.grouping import size_classes
from timing_logger.analysis.rows.tables import like, opened
from timing_logger.analysis.step_times.transfers import MESSAGE, Link
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.verdict import map_judgement, reduce_judgement
from timing_logger.errors import FixError
from timing_logger.results import criteria
from timing_logger.results.what_if import Fix

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
    return costs_table(reduce_judgement([map_judgement(timings)]).case, frame)


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


# -- how long a transfer takes by its size: latency and bandwidth, fitted to a run's own rows ------------
# The model is that of Hockney (Parallel Computing 20, 1994): b bytes take a latency, and b divided by a
# bandwidth. It is fitted by least squares to the median of each class of sizes, relative to it.


class Family(NamedTuple):
    """Transfers that are alike but for their size: of one operation, among as many ranks, on as many hosts.

    ``n_hosts`` is 0 where the hosts are not known.
    """

    operation: str
    n_ranks: int
    n_hosts: int


class TransferModel(NamedTuple):
    """How long the transfers of a family take.

    Attributes:
        family: the family.
        latency_ms: what a transfer takes without any bytes.
        ms_per_byte: what each byte adds.
        least_bytes, most_bytes: between which sizes it was measured.
        n: the number of transfers that were.
        error: how far the median of a class of sizes is from the model, as a fraction of it: the root of the
            mean square.
    """

    family: Family
    latency_ms: float
    ms_per_byte: float
    least_bytes: float
    most_bytes: float
    n: int
    error: float

    def ms(self, size_bytes: Floats) -> Floats:
        """Return how long transfers of these sizes take."""
        return self.latency_ms + self.ms_per_byte * size_bytes

    def was_measured_at(self, size_bytes: Floats) -> bool:
        """Tell whether all of these sizes lie among those that were measured."""
        least = self.least_bytes * (1 - criteria.ROUNDING_SHARE)
        most = self.most_bytes * (1 + criteria.ROUNDING_SHARE)
        return bool(((size_bytes >= least) & (size_bytes <= most)).all())


def family_of(case: Case, link: Link) -> Family:
    """Return the family of a link."""
    hosts = {case.hosts.get(rank, "") for rank in case.times.ranks_of(link.columns)}
    return Family(link.operation, len(link.columns), 0 if "" in hosts else len(hosts))


def models_of(case: Case) -> dict[Family, TransferModel]:
    """Return the model of each family that was measured at two classes of sizes or more."""
    transfers = case.times.transfers
    by_family: dict[Family, list[int]] = {}
    for number, link in enumerate(transfers.links):
        by_family.setdefault(family_of(case, link), []).append(number)
    found = {}
    for family, numbers in by_family.items():
        mean_ms, mean_bytes = (
            values[:, numbers].ravel() for values in (transfers.mean_ms, transfers.mean_bytes)
        )
        known = (mean_ms > 0) & (mean_bytes > 0)
        n = transfers.n[:, numbers].ravel()[known]
        if model := _fitted(family, mean_ms[known], mean_bytes[known], n):
            found[family] = model
    return found


def _fitted(family: Family, took_ms: Floats, size_bytes: Floats, n: Ints) -> TransferModel | None:
    of_class = size_classes(size_bytes)
    here = [of_class == one for one in np.unique(of_class)]
    if len(here) < criteria.MIN_MODEL_SIZES:
        return None
    size, typical_ms = (np.array([np.median(of[its]) for its in here]) for of in (size_bytes, took_ms))
    latency_ms, ms_per_byte = _least_squares(size, typical_ms)
    off = (latency_ms + ms_per_byte * size) / typical_ms - 1
    error = float(np.sqrt(np.mean(off**2)))
    least, most = float(size_bytes.min()), float(size_bytes.max())
    return TransferModel(family, latency_ms, ms_per_byte, least, most, int(n.sum()), error)


def _least_squares(size: Floats, took_ms: Floats) -> tuple[float, float]:
    """Return latency and time per byte, neither below 0, with the least squares of relative errors."""
    columns = np.stack([1 / took_ms, size / took_ms], axis=1)
    ones = np.ones(len(size))
    scale = np.abs(columns).max(axis=0)
    (latency, per_byte), *_ = np.linalg.lstsq(columns / scale, ones, rcond=None)
    if latency >= 0 and per_byte >= 0:
        return float(latency / scale[0]), float(per_byte / scale[1])
    kept = 1 if latency < 0 else 0
    alone = float(columns[:, kept].sum() / (columns[:, kept] ** 2).sum())
    return (0.0, alone) if kept else (alone, 0.0)


# -- how long transfers would take with other sizes or groups, by what was measured in the same run ------


def longer_with(case: Case, fix: Fix) -> Floats:
    """Return by which factor transfers would take longer, steps x links; NaN where there are none.

    Raises:
        FixError: the run has not measured what that takes.
    """
    transfers, models = case.times.transfers, models_of(case)
    if not len(transfers.links):
        raise FixError(f"{fix}: no transfer was measured without waiting")
    spent_ms = np.nansum(transfers.mean_ms * transfers.n, axis=0)
    found = np.ones(transfers.mean_bytes.shape)
    for number, link in enumerate(transfers.links):
        if fix.kind != "bytes" and link.operation == MESSAGE:
            continue  # buckets and groups are those of collectives
        size = transfers.mean_bytes[:, number]
        longer = _longer(fix, family_of(case, link), models, size[size > 0])
        if not isinstance(longer, str):
            found[size > 0, number] = longer
        elif spent_ms[number] > criteria.TRIFLE_SHARE * spent_ms.sum():
            raise FixError(f"{fix}: {longer}")
    return found


def _longer(fix: Fix, family: Family, models: Mapping[Family, TransferModel], size: Floats) -> Floats | str:
    """Return by which factor transfers of a family would take longer; or why that is not known."""
    other, other_size, times_as_many = _other(fix, family, size)
    model, new = models.get(family), models.get(other)
    if model is None:
        return f"{_said(family)} was measured at one size only, which tells nothing of another"
    if new is None:
        among = [str(one.n_ranks) for one in models if one._replace(n_ranks=family.n_ranks) == family]
        return f"{_said(family)} was measured among {' and '.join(sorted(among))} ranks only"
    if not new.was_measured_at(other_size):
        measured = _from_to(new.least_bytes, new.most_bytes)
        would_be = _from_to(float(other_size.min()), float(other_size.max()))
        return f"{_said(other)} was measured with {measured} only, and would have {would_be}"
    if max(model.error, new.error) > criteria.MAX_MODEL_ERROR_SHARE:
        error = max(model.error, new.error)
        return f"no latency and bandwidth tell what {_said(other)} takes: they are off by {error:.0%}"
    return times_as_many * new.ms(other_size) / model.ms(size)


def _other(fix: Fix, family: Family, size: Floats) -> tuple[Family, Floats, Floats]:
    """Return what becomes of transfers: their family, their sizes, and how many there are for each."""
    one = np.ones(len(size))
    if fix.kind == "bytes":
        return family, fix.number * size, one
    if fix.kind == "bucket":
        return family, fix.number * one, size / fix.number
    return family._replace(n_ranks=int(fix.number)), size, one


def _said(family: Family) -> str:
    hosts = f" on {family.n_hosts} host{'s' if family.n_hosts > 1 else ''}" if family.n_hosts else ""
    return f"{family.operation} among {family.n_ranks} ranks{hosts}"


def _from_to(least: float, most: float) -> str:
    return f"{most:,.0f} bytes" if round(least) == round(most) else f"{least:,.0f} to {most:,.0f} bytes"
