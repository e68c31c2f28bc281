"""Select the rows of compressed reductions, and tell what each row is for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.collectives.matching import Instances
from timing_logger.analysis.collectives.transfer_samples import Measured
from timing_logger.analysis.collectives.waits import is_root
from timing_logger.analysis.rows.arrays import coded_text, dense_codes, each_text, numbers, renamed
from timing_logger.analysis.rows.grouping import any_row_of, greatest_of_each
from timing_logger.analysis.rows.operations import COMMUNICATION, COPIES, FROM_ROOT, base_operation
from timing_logger.analysis.rows.table_types import Bools, Floats, Frame, Ints

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


def first_words(frame: Frame) -> tuple[Ints, list[str]]:
    """Return the first word of each row's phase.

    Returns:
        For each row the index of its word, and the distinct words in ascending order.
    """
    return renamed(coded_text(frame, "phase"), _first_word)


def measured_with_work(frame: Frame, parts: Instances) -> tuple[Measured, Bools]:
    """Measure the rows that compression is judged by.

    Args:
        frame: a table that ``opened`` returned.
        parts: its ``complete_instances``.

    Returns:
        The measured rows, and for each kind of them whether its bytes left the rank.
    """
    layer, _ = coded_text(frame, "layer_name")
    word, _ = first_words(frame)
    sent = sends(frame, parts)
    measured = Measured.of(frame, parts, WORK, apart=(layer, word, sent))
    return measured, sent[measured.row]


def _layers(frame: Frame, row: Ints) -> tuple[Ints, list[tuple[str, str]]]:
    """Return the layer of each given row, and the name and first word of the phase of each layer."""
    (name, names), (word, words) = coded_text(frame, "layer_name"), first_words(frame)
    layer = dense_codes(name[row], word[row])
    some = row[any_row_of(layer)]
    return layer, [(names[i], words[j]) for i, j in zip(name[some], word[some], strict=True)]


def _first_word(phase: str) -> str:
    return phase.split(" ", 1)[0]


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
