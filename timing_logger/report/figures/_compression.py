"""The figure that tells whether compression pays, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis import compression
from timing_logger.report._limits import MOST_LINES
from timing_logger.report._wording import count, size
from timing_logger.report.figures._colours import COMMUNICATION, INK, WORK, mixed, solid
from timing_logger.report.figures._drawing import HOVER, empty, graph_objects, lanes, text
from timing_logger.report.figures._tables import in_pandas

if TYPE_CHECKING:
    import plotly.graph_objects as go

_PARTS = {
    "compress_ms": ("compressing", solid(WORK)),
    "transfer_ms": ("transfer", solid(COMMUNICATION)),
    "decompress_ms": ("decompressing", solid(mixed(WORK, 0.5))),
}
"""The parts of a compressed reduction, with their names and how they are drawn."""

_VERDICTS = {True: "pays", False: "does not pay"}


def compression_figure(timings: IntoDataFrameT, dense_timings: IntoDataFrameT | None = None) -> go.Figure:
    """Draw whether compression pays: the time of each layer's reduction against that of an uncompressed one.

    The bar of a layer has the parts of its reduction, and is as long as its break-even: 1 is the time that an
    uncompressed allreduce would take, and a bar that ends before pays. The figures are those of
    :func:`timing_logger.analysis.compression`. Of more than 20 layers those with most time are drawn.

    Args:
        timings: as ``read_timings`` returns.
        dense_timings: timings to take the times of uncompressed reductions from, such as those of the same
            training without compression. Default: the other ``ALLREDUCE`` rows of ``timings``.

    Returns:
        The figure; one that says so if nothing was compressed, or nothing tells how long a dense reduction
        takes.

    Raises:
        ConfigurationError: plotly is not installed.
        TableError: the timings have no column ``rank``.
    """
    table = in_pandas(compression(timings, dense_timings))
    if table.empty:
        return empty("Does compression pay?", "no layer was compressed")
    known = table[np.isfinite(table["break_even"].astype(float))]
    if known.empty:
        return empty(
            "Does compression pay?", "no compressed layer has an uncompressed reduction to compare it with"
        )
    drawn = _with_most_time(known)
    labels = _labels(drawn)
    notes = list(_on_left_out(len(table), len(known), len(drawn)))
    return lanes(
        _traces(drawn, labels), _title(known), notes, "time as a fraction of an uncompressed reduction's",
        labels, barmode="stack", shapes=[_break_even()],
    )  # fmt: skip


def _title(known: pd.DataFrame) -> str:
    """Return in how many layers compression pays."""
    n_layers, n_paying = len(known), int(known["pays"].fillna(False).astype(bool).sum())
    unsure = int(known["pays"].isna().sum())
    told = f"; of {unsure} it is not known, as no size near theirs was measured" if unsure else ""
    return f"Compression pays in {n_paying} of {count(n_layers, 'layer')}{told}"


def _with_most_time(known: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the layers that took most time in all, in their order; all of a few."""
    order = (known["count"] * known["achieved_ms"]).sort_values(ascending=False, kind="stable").index
    found: pd.DataFrame = known.loc[sorted(order[:MOST_LINES])]
    return found


def _labels(layers: pd.DataFrame) -> list[str]:
    """Return a label for each row; the phase is in it where a layer has several."""
    several = layers["layer_name"].duplicated(keep=False)
    rows = zip(layers["layer_name"].astype(str), layers["phase"].astype(str), several, strict=True)
    return [f"{text(name) or '(no layer)'}{f', {text(phase)}' if many else ''}" for name, phase, many in rows]


def _traces(layers: pd.DataFrame, labels: list[str]) -> Iterator[Any]:
    for part, (name, marker) in _PARTS.items():
        yield graph_objects().Bar(
            orientation="h",
            name=name,
            y=labels,
            x=(layers[part] / layers["dense_estimate_ms"]).tolist(),
            marker=marker,
            hovertext=[
                f"{label}: {name} {row[part]:.3f} ms<br>{_says(row)}"
                for label, row in zip(labels, layers.to_dict("records"), strict=True)
            ],
            hovertemplate=HOVER,
        )


def _says(row: dict[Any, Any]) -> str:
    pays = "it is not known whether that pays" if pd.isna(row["pays"]) else _VERDICTS[bool(row["pays"])]
    return (
        f"in all {row['achieved_ms']:.3f} ms, uncompressed {row['dense_estimate_ms']:.3f} ms: "
        f"{row['break_even']:.2f}, {pays}<br>{size(row['sent_bytes'])} sent for {size(row['dense_bytes'])}"
    )


def _break_even() -> dict[str, Any]:
    """Return the line at which a compressed reduction takes as long as an uncompressed one."""
    return {"type": "line", "x0": 1, "x1": 1, "y0": 0, "y1": 1, "yref": "paper", "line": {"color": INK}}


def _on_left_out(n_layers: int, n_known: int, n_drawn: int) -> Iterator[str]:
    yield "The line at 1 is an uncompressed reduction: a bar that ends before it pays."
    if n_drawn < n_known:
        yield f"Of {n_known} layers these are the {n_drawn} with most time; {n_known - n_drawn} are left out."
    if n_known < n_layers:
        yield f"Of {count(n_layers - n_known, 'layer')} more the break-even is not known."
