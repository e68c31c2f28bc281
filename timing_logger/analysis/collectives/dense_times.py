"""Measure how long uncompressed allreduces took, by size, and estimate from that how long others would."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from narwhals.typing import IntoDataFrame

from timing_logger.analysis.collectives.bandwidth import size_classes
from timing_logger.analysis.collectives.transfer_samples import Measured
from timing_logger.analysis.collectives.waits import complete_instances
from timing_logger.analysis.rows.analysis import COLUMNS_OF, OfCommunication
from timing_logger.analysis.rows.arrays import dense_codes
from timing_logger.analysis.rows.grouping import any_row_of, counts_known, ordered_sums
from timing_logger.analysis.rows.table_types import Bools, Floats, Frame, Ints
from timing_logger.analysis.rows.tables import opened

_ALLREDUCE = frozenset({"ALLREDUCE"})


class DenseTimes(NamedTuple):
    """The time of uncompressed allreduces: one entry for each number of ranks and class of sizes.

    Both figures are means: their ratio is that of all bytes to all time, as of what a compressed reduction
    is compared with.

    Attributes:
        n_ranks: the number of ranks; NaN if unknown.
        size: the mean message size in bytes, above 0.
        time_ms: the mean time in ms, above 0: the transfer time where that is known of some rows.
    """

    n_ranks: Floats
    size: Floats
    time_ms: Floats

    @classmethod
    def of(cls, measured: Measured) -> DenseTimes:
        """Compute the times from measured rows; those that are no finished ``ALLREDUCE`` are left out."""
        measured = measured.only(measured.is_one_of(_ALLREDUCE) & measured.is_ok & (measured.size > 0))
        key = dense_codes(measured.n_ranks, size_classes(measured.size))
        n_ranks = measured.n_ranks[any_row_of(key)]
        key, size = key[measured.kind], measured.size[measured.kind]
        (own_size, own_ms), (size_, transfer_ms) = (
            _means(size, time_ms, key, len(n_ranks)) for time_ms in (measured.time_ms, measured.transfer_ms)
        )
        has_transfer = transfer_ms > 0
        size, time_ms = np.where(has_transfer, size_, own_size), np.where(has_transfer, transfer_ms, own_ms)
        known = time_ms > 0
        return cls(n_ranks[known], size[known], time_ms[known])

    def of_ranks(self, n_ranks: float) -> DenseTimes:
        """Return the entries that a reduction among ``n_ranks`` ranks may be compared with.

        Rows without a group are of all ranks, as far as anybody knows: where the number of ranks is unknown,
        these are the entries of the most ranks; and where no entry is of ``n_ranks``, those of which it is
        unknown.
        """
        sought = np.fmax.reduce(self.n_ranks, initial=np.nan) if np.isnan(n_ranks) else n_ranks
        here: Bools = self.n_ranks == sought
        here = here if here.any() else np.isnan(self.n_ranks)
        return DenseTimes._make(values[here] for values in self)

    def estimates(self, size: Floats) -> tuple[Floats, Floats]:
        """Estimate how long an allreduce of each size takes in ms, and how far it is from those measured.

        All entries must be of equally many ranks, and there must be at least one.
        """
        order = np.argsort(self.size)
        measured, took_ms = self.size[order], self.time_ms[order]
        took_ms = np.minimum.accumulate(took_ms[::-1])[::-1]  # no size takes longer than a larger one
        at = np.clip(size, measured[0], measured[-1])
        speed = np.exp(np.interp(np.log(at), np.log(measured), np.log(measured / took_ms)))
        return size / speed, np.maximum(size / at, at / size)


def _means(size: Floats, time_ms: Floats, key: Ints, n_keys: int) -> tuple[Floats, Floats]:
    """Return the mean size and time of each key's rows with a time; NaN for keys without any."""
    time_ms = np.where(time_ms >= 0, time_ms, np.nan)
    n_rows = counts_known(time_ms, key, n_keys)
    n = np.where(n_rows > 0, n_rows, np.nan)
    sizes = np.where(np.isnan(time_ms), np.nan, size)
    return ordered_sums(sizes, key, n_keys) / n, ordered_sums(time_ms, key, n_keys) / n


def dense_times(timings: IntoDataFrame) -> DenseTimes:
    """Compute the times from a table of timings, as ``read_timings`` returns."""
    return DenseTimes.of(_measured(opened(timings, COLUMNS_OF["bandwidth"])))


def _measured(frame: Frame) -> Measured:
    measured = Measured.of(frame, complete_instances(frame))
    return measured.only(measured.is_one_of(_ALLREDUCE))


DENSE_TIMES = OfCommunication(COLUMNS_OF["bandwidth"], dense_times)
"""The analysis that makes :class:`DenseTimes`."""
