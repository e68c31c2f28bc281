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
from timing_logger.analysis.operations import COPIES, FROM_ROOT, base_operation, is_communication
from timing_logger.analysis.waiting import complete_instances, is_root, transfer_times_ms, with_bytes
from timing_logger.record import OK


class CompressedRows(NamedTuple):
    """One entry for each row of a compressed reduction, or for each layer where it says so.

    Attributes:
        belongs: for each row of the table, whether it is one of these.
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
    def of(cls, frame: Frame) -> CompressedRows:
        named = coded_text(frame, "operation")
        compresses = each_text(named, lambda name: base_operation(name) == "COMPRESS")
        decompresses = each_text(named, lambda name: base_operation(name) == "DECOMPRESS")
        unpacks = decompresses | each_text(named, lambda name: base_operation(name) == "MERGE")
        transfers = each_text(named, lambda name: is_communication(name) or base_operation(name) in COPIES)
        layer, names = _layers(frame)
        is_compressed = np.bincount(layer, compresses, minlength=len(names)) > 0
        is_ok = each_text(coded_text(frame, "status"), {OK, ""}.__contains__)
        belongs = is_compressed[layer] & (compresses | unpacks | transfers) & is_ok
        begun, done = (
            np.bincount(layer[belongs & those], minlength=len(names)) for those in (compresses, decompresses)
        )
        group_sizes = _largest_groups(numbers(frame, "group_size"), layer, belongs & transfers, len(names))
        kept = np.flatnonzero(is_compressed)
        return cls(
            belongs=belongs,
            layers=[names[number] for number in kept],
            layer=np.searchsorted(kept, layer[belongs]),
            time_ms=_times_without_waiting_ms(frame)[belongs],
            size=numbers(frame, "message_size_bytes")[belongs],
            compresses=compresses[belongs],
            transfers=transfers[belongs],
            decompresses=unpacks[belongs],
            sends=_sends(frame, named)[belongs],
            # One may compress twice and merge often, but makes its dense result once.
            n_reductions=np.where(done > 0, done, begun)[kept],
            group_sizes=group_sizes[kept],
        )


def _layers(frame: Frame) -> tuple[Ints, list[tuple[str, str]]]:
    """Each row's layer, and the layers' names and first words of their phases."""
    name, names = coded_text(frame, "layer_name")
    phases = coded_text(frame, "phase")
    words = sorted({_first_word(text) for text in phases[1]})
    word = each_text(phases, lambda text: words.index(_first_word(text)), np.int64)
    layer = dense_codes(name, word)
    row = any_row_of(layer)
    return layer, [(names[i], words[j]) for i, j in zip(name[row], word[row], strict=True)]


def _first_word(phase: str) -> str:
    return phase.split(" ", 1)[0]


def _largest_groups(group_size: Floats, layer: Ints, wanted: Bools, n_layers: int) -> Floats:
    largest: Floats = np.full(n_layers, np.nan)
    np.fmax.at(largest, layer[wanted], group_size[wanted])
    return largest


def _times_without_waiting_ms(frame: Frame) -> Floats:
    time_ms: Floats = numbers(frame, "elapsed_ms").copy()
    parts = complete_instances(frame)
    transfer_ms = transfer_times_ms(parts, time_ms[parts.row], with_bytes(frame, parts))
    time_ms[parts.row] = np.where(np.isnan(transfer_ms), time_ms[parts.row], transfer_ms)
    return time_ms


def _sends(frame: Frame, named: tuple[Ints, list[str]]) -> Bools:
    """Whether the row's bytes left this rank: not what it receives, nor what another root sends."""
    sends = each_text(named, lambda name: is_communication(name) and base_operation(name) != "RECV")
    from_root = each_text(named, lambda name: base_operation(name) in FROM_ROOT)
    sends_as_root = frame["rank"].to_numpy() == numbers(frame, "peer")
    parts = complete_instances(frame)
    sends_as_root[parts.row] = is_root(frame, parts)
    sent: Bools = np.where(from_root, sends_as_root, sends)
    return sent
