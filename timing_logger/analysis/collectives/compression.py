"""Compare the time of compressed reductions with that of uncompressed ones, layer by layer."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, cast

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrame, IntoDataFrameT

from timing_logger.analysis.collectives.bandwidth import MOVES, Measured
from timing_logger.analysis.collectives.matching import Instances, is_root
from timing_logger.analysis.collectives.waits import complete_instances
from timing_logger.analysis.rows.analysis import COLUMNS_OF, OfCommunication
from timing_logger.analysis.rows.arrays import (
    Bools,
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    numbers,
    renamed,
)
from timing_logger.analysis.rows.grouping import (
    any_row_of,
    counts_known,
    greatest_of_each,
    ordered_sums,
    quantiles,
    size_classes,
    sums,
)
from timing_logger.analysis.rows.operations import COMMUNICATION, COPIES, FROM_ROOT, base_operation
from timing_logger.analysis.rows.tables import new_columns, nullable, opened, text_column
from timing_logger.results import criteria

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
    frame = opened(timings, COLUMNS_OF["bandwidth"])
    return DenseTimes.of(Measured.of(frame, complete_instances(frame)))


DENSE_TIMES = OfCommunication(COLUMNS_OF["bandwidth"], dense_times)
"""The analysis that makes :class:`DenseTimes`."""


WORK = frozenset({"COMPRESS", "MERGE", "DECOMPRESS"})
"""Operations that a compressed reduction needs beside moving bytes."""


class CompressedRows(NamedTuple):
    """The rows of compressed reductions: one entry per row, unless an attribute says otherwise.

    Attributes:
        belongs: one entry per kind of :class:`Measured`: whether rows of the kind are among these rows.
        layers: one entry per layer: its name and the first word of its phase.
        layer: the row's layer, an index into ``layers``.
        time_ms: the row's duration; for a collective whose parts are all there, its transfer time.
        size: ``message_size_bytes``.
        compresses, transfers, decompresses: whether the row compresses, moves bytes, or decompresses
            (which includes merging).
        sends: whether ``size`` was sent by this rank.
        n_reductions: one entry per layer: the number of reductions, summed over all ranks.
        n_ranks: one entry per layer: the number of ranks of the largest group that exchanges it; NaN if
            unknown.
    """

    belongs: Bools
    layers: list[tuple[str, str]]
    layer: Ints
    time_ms: Floats
    size: Floats
    compresses: Bools
    transfers: Bools
    decompresses: Bools
    sends: Bools
    n_reductions: Ints
    n_ranks: Floats

    @classmethod
    def of(cls, frame: Frame, measured: Measured, sends: Bools) -> CompressedRows:
        """Select the rows of compressed reductions from measured rows.

        Args:
            frame: the table that ``measured.row`` refers to.
            measured: the measured rows, including those of ``WORK``.
            sends: for each kind of ``measured``, whether its bytes left the rank.
        """
        compresses = measured.is_one_of({"COMPRESS"})
        decompresses = measured.is_one_of({"DECOMPRESS"})
        transfers = measured.is_one_of(COMMUNICATION | COPIES)
        layer, names = _layers(frame, measured.row)
        is_compressed = np.bincount(layer, compresses, minlength=len(names)) > 0
        belongs = is_compressed[layer] & measured.is_ok
        begun, done = (
            np.bincount(layer, measured.n_rows * (belongs & those), minlength=len(names)).astype(np.int64)
            for those in (compresses, decompresses)
        )
        exchanged = belongs & transfers
        n_ranks = greatest_of_each(measured.n_ranks[exchanged], layer[exchanged], len(names))
        kept = np.flatnonzero(is_compressed)
        rows = belongs[measured.kind]
        kind = measured.kind[rows]
        time_ms, transfer_ms = measured.time_ms[rows], measured.transfer_ms[rows]
        return cls(
            belongs=belongs,
            layers=[names[number] for number in kept],
            layer=np.searchsorted(kept, layer[kind]),
            time_ms=np.where(np.isnan(transfer_ms), time_ms, transfer_ms),
            size=measured.size[kind],
            compresses=compresses[kind],
            transfers=transfers[kind],
            decompresses=measured.is_one_of({"DECOMPRESS", "MERGE"})[kind],
            sends=sends[kind],
            # A reduction may compress twice and merge often, but makes its dense result once.
            n_reductions=np.where(done > 0, done, begun)[kept],
            n_ranks=n_ranks[kept],
        )


def _first_words(frame: Frame) -> tuple[Ints, list[str]]:
    """Return the first word of each row's phase, as an index into the distinct words in ascending order."""
    return renamed(coded_text(frame, "phase"), lambda phase: phase.split(" ", 1)[0])


def measured_with_work(frame: Frame, parts: Instances) -> tuple[Measured, Bools]:
    """Measure the rows that compression is judged by.

    Args:
        frame: a table that ``opened`` returned.
        parts: its ``complete_instances``.

    Returns:
        The measured rows, and for each kind of them whether its bytes left the rank.
    """
    layer, _ = coded_text(frame, "layer_name")
    word, _ = _first_words(frame)
    sent = sends(frame, parts)
    measured = Measured.of(frame, parts, WORK, apart=(layer, word, sent))
    return measured, sent[measured.row]


def _layers(frame: Frame, row: Ints) -> tuple[Ints, list[tuple[str, str]]]:
    """Return the layer of each given row, and the name and first word of the phase of each layer."""
    (name, names), (word, words) = coded_text(frame, "layer_name"), _first_words(frame)
    layer = dense_codes(name[row], word[row])
    some = row[any_row_of(layer)]
    return layer, [(names[i], words[j]) for i, j in zip(name[some], word[some], strict=True)]


def sends(frame: Frame, parts: Instances) -> Bools:
    """Tell for each row whether its bytes left its rank.

    Bytes that the rank receives do not count, nor those that another rank sends as the root.

    Args:
        frame: a table that ``opened`` returned.
        parts: its ``complete_instances``.
    """
    named = coded_text(frame, "operation")
    leaves = each_text(named, lambda name: base_operation(name) in COMMUNICATION - {"RECV"})
    from_root = each_text(named, lambda name: base_operation(name) in FROM_ROOT)
    leaves_as_root = frame["rank"].to_numpy() == numbers(frame, "peer")
    leaves_as_root[parts.row] = is_root(frame, parts)
    return np.where(from_root, leaves_as_root, leaves)


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
    return _compression(timings, dense=None if dense_timings is None else dense_times(dense_timings))


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


def _compression(timings: IntoDataFrameT, *, dense: DenseTimes | None) -> IntoDataFrameT:
    frame = opened(timings, COLUMNS_OF["compression"])
    found = compression_of(frame, *measured_with_work(frame, complete_instances(frame)), dense)
    return cast("IntoDataFrameT", found.to_native())
