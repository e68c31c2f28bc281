"""How long a transfer takes by its size: latency and bandwidth, fitted to a run's own rows.

The model is that of Hockney (Parallel Computing 20, 1994): b bytes take a latency, and b divided
by a bandwidth. It is fitted by least squares to the median of each class of sizes, relative to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.collectives.bandwidth import size_classes
from timing_logger.analysis.step_times.transfers import Link
from timing_logger.analysis.stragglers.case import Case
from timing_logger.analysis.table_types import Floats, Ints


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
        least, most = self.least_bytes * (1 - _SAME_SIZE), self.most_bytes * (1 + _SAME_SIZE)
        return bool(((size_bytes >= least) & (size_bytes <= most)).all())


_SAME_SIZE = 1e-6
_LEAST_SIZES = 2


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
    classes = list(_medians(took_ms, size_bytes))
    if len(classes) < _LEAST_SIZES:
        return None
    size, typical_ms = np.array(classes).T
    latency_ms, ms_per_byte = _least_squares(size, typical_ms)
    off = (latency_ms + ms_per_byte * size) / typical_ms - 1
    error = float(np.sqrt(np.mean(off**2)))
    least, most = float(size_bytes.min()), float(size_bytes.max())
    return TransferModel(family, latency_ms, ms_per_byte, least, most, int(n.sum()), error)


def _medians(took_ms: Floats, size_bytes: Floats) -> Iterator[tuple[float, float]]:
    """Yield for each class of sizes the median of the sizes, and that of the times."""
    of_class = size_classes(size_bytes)
    for one in np.unique(of_class):
        here = of_class == one
        yield float(np.median(size_bytes[here])), float(np.median(took_ms[here]))


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
