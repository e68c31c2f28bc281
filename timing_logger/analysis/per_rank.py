"""A run in one row per rank: what single collectives and single steps say, put together."""

from __future__ import annotations

from typing import Any, cast

import narwhals as nw
import numpy as np
import numpy.typing as npt
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis._frames import (
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    new_column,
    numbers,
    opened,
    taken,
)
from timing_logger.analysis._grouped import any_row_of, counts_known, quantiles, sums

_OF_WAITS = ("operation", "group", "rank", "incarnation")
_OF_MESSAGES = ("group", "sender", "receiver")
_OF_STEPS = ("rank", "incarnation")
_STEP_FIGURES = (
    "communication_ms", "compute_ms", "copy_ms", "waited_ms", "exposed_ms", "hidden_ms", "overlap", "step_ms",
)  # fmt: skip


def summarize_waits(waits: IntoDataFrameT) -> IntoDataFrameT:
    """One row for each operation, group, rank and incarnation, in ascending order.

    Args:
        waits: as :func:`timing_logger.analysis.waits` returns.

    Columns:
        operation, group, rank, incarnation.
        count: collectives.
        wait_ms, clock_free_wait_ms: sums over them (NaN if no collective has one).
        arrival_skew_ms, transfer_ms: medians.
        times_last: in how many of them this rank was the last to arrive.
        clock_violations: how many contradict the clocks.
        uncertainty_ms: the largest.
    """
    frame = opened(waits, _OF_WAITS)
    key = dense_codes(
        coded_text(frame, "operation")[0], coded_text(frame, "group")[0],
        frame["rank"].to_numpy(), frame["incarnation"].to_numpy(),
    )  # fmt: skip
    row = any_row_of(key)
    figures = {"count": np.bincount(key, minlength=len(row)), **_wait_figures(frame, key, len(row))}
    table = taken(frame, _OF_WAITS, row).with_columns(
        *(new_column(frame, name, values) for name, values in figures.items())
    )
    return cast("IntoDataFrameT", table.to_native())


def _wait_figures(frame: Frame, key: Ints, n_groups: int) -> dict[str, npt.NDArray[Any]]:
    is_last = (numbers(frame, "last_arriver") == numbers(frame, "rank")).astype(np.float64)
    violates = frame["clock_violation"].to_numpy().astype(np.float64)
    return {
        "wait_ms": _known_sums(numbers(frame, "wait_ms"), key, n_groups),
        "clock_free_wait_ms": _known_sums(numbers(frame, "clock_free_wait_ms"), key, n_groups),
        "arrival_skew_ms": quantiles(numbers(frame, "arrival_skew_ms"), key, n_groups, [0.5])[0],
        "transfer_ms": quantiles(numbers(frame, "transfer_ms"), key, n_groups, [0.5])[0],
        "times_last": sums(is_last, key, n_groups).astype(np.int64),
        "clock_violations": sums(violates, key, n_groups).astype(np.int64),
        "uncertainty_ms": quantiles(numbers(frame, "uncertainty_ms"), key, n_groups, [1.0])[0],
    }


def _known_sums(values: Floats, key: Ints, n_groups: int) -> Floats:
    return np.where(counts_known(values, key, n_groups) > 0, sums(values, key, n_groups), np.nan)


def summarize_messages(messages: IntoDataFrameT) -> IntoDataFrameT:
    """One row for each group, sender and receiver, in ascending order.

    Args:
        messages: as :func:`timing_logger.analysis.message_waits` returns.

    Columns:
        group, sender, receiver.
        count: messages.
        bytes: sum of their sizes (NaN if none is known).
        send_ms, receive_ms: medians.
        late_sender_ms, late_receiver_ms: sums (NaN if no message has one).
        clock_violations: how many contradict the clocks.
        uncertainty_ms: the largest.
    """
    frame = opened(messages, _OF_MESSAGES, by_rank=False)
    key = dense_codes(coded_text(frame, "group")[0], numbers(frame, "sender"), numbers(frame, "receiver"))
    row = any_row_of(key)
    n = len(row)
    violates = frame["clock_violation"].to_numpy().astype(np.float64)
    figures = {
        "count": np.bincount(key, minlength=n),
        "bytes": _known_sums(numbers(frame, "message_size_bytes"), key, n),
        **{name: quantiles(numbers(frame, name), key, n, [0.5])[0] for name in ("send_ms", "receive_ms")},
        **{
            name: _known_sums(numbers(frame, name), key, n) for name in ("late_sender_ms", "late_receiver_ms")
        },
        "clock_violations": sums(violates, key, n).astype(np.int64),
        "uncertainty_ms": quantiles(numbers(frame, "uncertainty_ms"), key, n, [1.0])[0],
    }
    table = taken(frame, _OF_MESSAGES, row).with_columns(
        *(new_column(frame, name, values) for name, values in figures.items())
    )
    return cast("IntoDataFrameT", table.to_native())


def summarize_overlap(overlap: IntoDataFrameT) -> IntoDataFrameT:
    """One row for each rank and incarnation, in ascending order; what is outside of iterations is left out.

    Args:
        overlap: as :func:`timing_logger.analysis.overlap` returns.

    Columns:
        rank, incarnation.
        iterations: how many, those of each epoch where they restart.
        communication_ms, compute_ms, copy_ms, waited_ms, exposed_ms, hidden_ms, overlap, step_ms: medians
            over them (NaN if unknown).
    """
    frame = opened(overlap, _OF_STEPS)
    frame = frame.filter(~nw.col("iteration").is_null())
    key = dense_codes(numbers(frame, "rank"), numbers(frame, "incarnation"))
    row = any_row_of(key)
    table = taken(frame, _OF_STEPS, row).with_columns(
        new_column(frame, "iterations", np.bincount(key, minlength=len(row))),
        *(
            new_column(frame, name, quantiles(numbers(frame, name), key, len(row), [0.5])[0])
            for name in _STEP_FIGURES
        ),
    )
    return cast("IntoDataFrameT", table.to_native())
