"""The rows of reductions that are compressed: which they are, and what each is for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis._frames import (
    Bools,
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    numbers,
)
from timing_logger.analysis._grouped import any_row_of
from timing_logger.analysis._instances import Instances
from timing_logger.analysis.bandwidth import Measured
from timing_logger.analysis.operations import COMMUNICATION, COPIES, FROM_ROOT, base_operation
from timing_logger.analysis.waiting import is_root

WORK = frozenset({"COMPRESS", "MERGE", "DECOMPRESS"})
"""What compressing a reduction takes beside moving bytes."""


class CompressedRows(NamedTuple):
    """One entry for each row of a compressed reduction, or for each layer where it says so.

    Attributes:
        belongs: for each row that was measured, whether it is one of these.
        layers: each layer's name and the first word of its phase.
        layer: the row's, a number in ``layers``.
        time_ms: the row's duration; of an exchange whose parts are all there, its transfer time.
        size: ``message_size_bytes``.
        compresses, transfers, decompresses: what it is for.
        sends: whether ``size`` was sent by this rank.
        n_reductions: for each layer, of all ranks.
        group_sizes: for each layer, of the largest group that it is exchanged in; NaN if unknown.
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
    group_sizes: Floats

    @classmethod
    def of(cls, frame: Frame, measured: Measured, sends: Bools) -> CompressedRows:
        """Of what was measured of ``frame``, ``WORK`` too; ``sends`` has an entry for each of these rows."""
        compresses = measured.is_one_of({"COMPRESS"})
        decompresses = measured.is_one_of({"DECOMPRESS"})
        transfers = measured.is_one_of(COMMUNICATION | COPIES)
        layer, names = _layers(frame, measured.row)
        is_compressed = np.bincount(layer, compresses, minlength=len(names)) > 0
        belongs = is_compressed[layer] & measured.is_ok
        begun, done = (
            np.bincount(layer[belongs & those], minlength=len(names)) for those in (compresses, decompresses)
        )
        group_sizes = _largest_groups(measured.group_size, layer, belongs & transfers, len(names))
        kept = np.flatnonzero(is_compressed)
        without_waiting_ms = np.where(np.isnan(measured.transfer_ms), measured.time_ms, measured.transfer_ms)
        return cls(
            belongs=belongs,
            layers=[names[number] for number in kept],
            layer=np.searchsorted(kept, layer[belongs]),
            time_ms=without_waiting_ms[belongs],
            size=measured.size[belongs],
            compresses=compresses[belongs],
            transfers=transfers[belongs],
            decompresses=measured.is_one_of({"DECOMPRESS", "MERGE"})[belongs],
            sends=sends[belongs],
            # One may compress twice and merge often, but makes its dense result once.
            n_reductions=np.where(done > 0, done, begun)[kept],
            group_sizes=group_sizes[kept],
        )


def first_words(frame: Frame) -> tuple[Ints, list[str]]:
    """Of each row's phase, as numbers of the distinct words, which are in ascending order."""
    phases = coded_text(frame, "phase")
    words = sorted({_first_word(text) for text in phases[1]})
    return each_text(phases, lambda text: words.index(_first_word(text)), np.int64), words


def _layers(frame: Frame, row: Ints) -> tuple[Ints, list[tuple[str, str]]]:
    """The layer of each of these rows, and the layers' names and first words of their phases."""
    (name, names), (word, words) = coded_text(frame, "layer_name"), first_words(frame)
    layer = dense_codes(name[row], word[row])
    some = row[any_row_of(layer)]
    return layer, [(names[i], words[j]) for i, j in zip(name[some], word[some], strict=True)]


def _first_word(phase: str) -> str:
    return phase.split(" ", 1)[0]


def _largest_groups(group_size: Floats, layer: Ints, wanted: Bools, n_layers: int) -> Floats:
    largest: Floats = np.full(n_layers, np.nan)
    np.fmax.at(largest, layer[wanted], group_size[wanted])
    return largest


def sends(frame: Frame, parts: Instances, row: Ints) -> Bools:
    """Whether the bytes of these rows left their rank: not what it receives, nor what another root sends.

    ``parts`` are the ``complete_instances``.
    """
    named = coded_text(frame, "operation")
    leaves = each_text(named, lambda name: base_operation(name) in COMMUNICATION - {"RECV"})
    from_root = each_text(named, lambda name: base_operation(name) in FROM_ROOT)
    leaves_as_root = frame["rank"].to_numpy() == numbers(frame, "peer")
    leaves_as_root[parts.row] = is_root(frame, parts)
    sent: Bools = np.where(from_root, leaves_as_root, leaves)[row]
    return sent
