"""Compare the time of compressed reductions with that of uncompressed ones, layer by layer."""

from __future__ import annotations

from functools import partial
from typing import cast

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.collectives.compressed_rows import WORK, CompressedRows, measured_with_work
from timing_logger.analysis.collectives.dense_times import DenseTimes, dense_times
from timing_logger.analysis.collectives.transfer_samples import MOVES, Measured
from timing_logger.analysis.collectives.waits import complete_instances
from timing_logger.analysis.rows.analysis import COLUMNS_OF, OfCommunication
from timing_logger.analysis.rows.arrays import dense_codes
from timing_logger.analysis.rows.grouping import any_row_of, ordered_sums, quantiles, sums
from timing_logger.analysis.rows.operations import base_operation
from timing_logger.analysis.rows.table_types import Bools, Floats, Frame, Ints
from timing_logger.analysis.rows.tables import new_columns, nullable, opened, text_column
from timing_logger.results import criteria


def compression(timings: IntoDataFrameT, dense_timings: IntoDataFrameT | None = None) -> IntoDataFrameT:
    """Compare for each compressed layer the time of its reduction with an uncompressed one.

    A layer's rows are those of its name whose phase has the same first word as that of its ``COMPRESS``
    rows (``sparse``, ``sparse values``). Figures are means over the reductions of all ranks; a reduction
    has one ``DECOMPRESS`` row, or else one ``COMPRESS`` row. An exchange counts with its transfer time
    (see ``waits``) where all its parts are there: waiting for a late rank is no cost of compression.

    Uncompressed reductions, too, count with their means, not their medians. Whether a run is faster with
    compression is decided by its total time, of which a mean is a share: what is held up now and then belongs
    to it on both sides. Medians of parts do not add up, and one of them cannot be compared with a mean. So a
    first reduction that took long, as it made connections, counts too; it can be left out with its iteration.

    Args:
        timings: a table of timings, as ``read_timings`` returns.
        dense_timings: timings to take the times of uncompressed reductions from, such as those of the
            same training without compression. Default: the other ``ALLREDUCE`` rows of ``timings``.

    Returns:
        One row for each compressed layer. A figure is NaN where no rows tell it.

    Columns:
        layer_name, phase: of the compressed layer; the phase's first word.
        count: number of reductions, summed over all ranks (int64).
        compress_ms, transfer_ms, decompress_ms: time of one reduction. Transfer includes copies between
            host and device, decompressing includes ``MERGE``. NaN if the time of a row is unknown, as of
            one that covers only the issue (see ``bandwidth``).
        achieved_ms: sum of these three.
        dense_bytes: median size of the gradient before compressing.
        sent_bytes: bytes that a rank sends for one reduction; a broadcast counts at its root.
        saved_bytes: ``dense_bytes - sent_bytes``.
        dense_estimate_ms: the mean time of an ``ALLREDUCE`` of ``dense_bytes`` over as many ranks, from
            all bytes by all time of each class of sizes (see ``bandwidth``). Between two measured sizes this
            speed is interpolated in the logarithms of both; beyond them it is that of the nearest size. A
            size that took longer than a larger one was held up by something else, such as a busy processor:
            it counts as quick as that one. Rows that state no group size have as many ranks as their
            complete collectives; where that is unknown, too, they are taken to be of all ranks.
        extrapolated_by: ratio of ``dense_bytes`` to the nearest measured size, or its inverse, whichever
            is above 1; 1 if ``dense_bytes`` lies among the measured sizes.
        break_even: ``achieved_ms / dense_estimate_ms``; below 1 compression pays.
        pays: whether ``break_even`` is below 1; NA if that is unknown, or extrapolated by more than 2.
    """
    frame = opened(timings, COLUMNS_OF["compression"])
    measured, sends = measured_with_work(frame, complete_instances(frame))
    dense = None if dense_timings is None else dense_times(dense_timings)
    found = compression_of(frame, measured, sends, dense)
    return cast("IntoDataFrameT", found.to_native())


def compression_of(frame: Frame, measured: Measured, sends: Bools, dense: DenseTimes | None = None) -> Frame:
    """Compute the table of :func:`compression` from measured rows.

    Args:
        frame: the table that ``measured.row`` refers to.
        measured: the measured rows, including those of ``WORK``.
        sends: for each kind of ``measured``, whether its bytes left the rank.
        dense: what ``DENSE_TIMES`` returned for another run; None to take the allreduces of this run.
    """
    if not measured.is_one_of({"COMPRESS"}).any():  # nothing to compare: skip the work on all other rows
        measured, sends = measured.only(np.zeros(len(sends), np.bool_)), sends[:0]
    rows = CompressedRows.of(frame, measured, sends)
    n = len(rows.layers)
    n_reductions = np.where(rows.n_reductions > 0, rows.n_reductions, np.nan)  # perhaps none was finished
    compress_ms, transfer_ms, decompress_ms = (
        _sums_of_known(rows.time_ms[part], rows.layer[part], n) / n_reductions
        for part in (rows.compresses, rows.transfers, rows.decompresses)
    )
    achieved_ms = compress_ms + transfer_ms + decompress_ms
    dense_bytes = quantiles(np.where(rows.compresses, rows.size, np.nan), rows.layer, n, [0.5])[0]
    sent_bytes = sums(np.where(rows.sends, rows.size, 0.0), rows.layer, n) / n_reductions
    if dense is None:
        dense = DenseTimes.of(measured.only(~rows.belongs))
    estimate_ms, extrapolated_by = _dense_estimates(dense, dense_bytes, rows.n_ranks)
    with np.errstate(divide="ignore", invalid="ignore"):  # the estimate may be 0: too short for the clock
        break_even = achieved_ms / estimate_ms
    found = {
        "count": rows.n_reductions,
        "compress_ms": compress_ms,
        "transfer_ms": transfer_ms,
        "decompress_ms": decompress_ms,
        "achieved_ms": achieved_ms,
        "dense_bytes": dense_bytes,
        "sent_bytes": sent_bytes,
        "saved_bytes": dense_bytes - sent_bytes,
        "dense_estimate_ms": estimate_ms,
        "extrapolated_by": extrapolated_by,
        "break_even": break_even,
    }
    unknown = np.isnan(break_even) | (extrapolated_by > criteria.MAX_EXTRAPOLATION_TIMES)
    every = np.arange(n)
    names = text_column(frame, "layer_name", [layer for layer, _ in rows.layers], every).to_frame()
    return names.with_columns(
        text_column(frame, "phase", [phase for _, phase in rows.layers], every),
        *new_columns(frame, found),
        nullable(frame, "pays", break_even < 1, unknown),
    )


def _sums_of_known(values: Floats, group: Ints, n_groups: int) -> Floats:
    """Sum the values of each group; NaN if one of them is unknown."""
    has_unknown = np.bincount(group, np.isnan(values), minlength=n_groups) > 0
    return np.where(has_unknown, np.nan, ordered_sums(values, group, n_groups))


def _dense_estimates(dense: DenseTimes, dense_bytes: Floats, n_ranks: Floats) -> tuple[Floats, Floats]:
    """Estimate for each layer the time of an allreduce in ms, and how far its size is from those measured."""
    estimate_ms, extrapolated_by = (np.full(len(dense_bytes), np.nan) for _ in range(2))
    number = dense_codes(n_ranks)
    for code, of_layer in enumerate(n_ranks[any_row_of(number)]):
        here, measured = number == code, dense.of_ranks(of_layer)
        if len(measured.size):
            estimate_ms[here], extrapolated_by[here] = measured.estimates(dense_bytes[here])
    return estimate_ms, extrapolated_by


def moves_bytes_or_is_work(operation: str) -> bool:
    """Tell whether the operation moves bytes, or is work for compressing what is moved."""
    return base_operation(operation) in MOVES | WORK


def compression_against(dense: DenseTimes | None) -> OfCommunication[pd.DataFrame]:
    """Return the analysis :func:`compression`.

    Args:
        dense: what ``DENSE_TIMES`` returned for another run, without compression; None to take
            the allreduces of this run.
    """
    return OfCommunication(
        COLUMNS_OF["compression"], partial(_compression, dense=dense), moves_bytes_or_is_work
    )


def _compression(timings: pd.DataFrame, *, dense: DenseTimes | None) -> pd.DataFrame:
    frame = opened(timings, COLUMNS_OF["compression"])
    found: pd.DataFrame = compression_of(
        frame, *measured_with_work(frame, complete_instances(frame)), dense
    ).to_native()
    return found
