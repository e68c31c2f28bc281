"""The figure of a few iterations: every row of each rank, on an axis of time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.record import HOST_CLOCK
from timing_logger.report._wording import as_duration, process_name
from timing_logger.report.figures._chosen_rows import Chosen, chosen_rows
from timing_logger.report.figures._colours import OF_ROWS, hatched, solid
from timing_logger.report.figures._drawing import HOVER, empty, graph_objects, lanes, text
from timing_logger.report.html._timeline import kind_of, spans_of

if TYPE_CHECKING:
    import plotly.graph_objects as go

MAX_BARS = 5000
"""The most rows that are drawn: plotly makes a shape of each, and a notebook keeps them all in its file."""

_WIDTHS = {"own work": 0.84, "others": 0.84, "communication": 0.56, "copies": 0.56, "waiting": 0.3}
"""How high bars are, of a lane: what runs beside work, or while that waits, leaves it to be seen."""


class _Spans(NamedTuple):
    """The rows that are drawn.

    Attributes:
        table: the rows, with ``begin_ms``, ``ms``, ``kind`` and the label of the ``lane``.
        labels: those of all lanes, from top to bottom.
        is_common: whether all ranks are on one axis of time.
        n_left_out: the number of rows that are not drawn, as there are too many.
    """

    table: pd.DataFrame
    labels: list[str]
    is_common: bool
    n_left_out: int


def timeline_figure(
    timings: IntoDataFrameT, first_iteration: int | None = None, last_iteration: int | None = None
) -> go.Figure:
    """Draw every row of a few iterations: when it was under way, by rank and thread.

    A row of communication is drawn over work that it overlaps, and a ``WAIT`` row over both, each in a
    narrower bar. Ranks share one axis of time only if their clocks are known to agree; otherwise each begins
    at its own first row. Of more than 16 ranks those are drawn that the verdict names, and three others. Of
    more than 5000 rows the longest are drawn.

    Args:
        timings: as ``read_timings`` returns.
        first_iteration, last_iteration: the range of iterations; if only one is given, that one. Where
            iterations restart, those of the last epoch that has them. Default: a typical one of those in
            which time is lost, with the one before and the one after it.

    Returns:
        The figure; one that says so if no row of these iterations has instants.

    Raises:
        ConfigurationError: plotly is not installed.
        TableError: the timings have no column ``rank``.
    """
    chosen = chosen_rows(timings, first_iteration, last_iteration)
    if chosen is None:
        return empty("Every row of some iterations", "no row that belongs to an iteration")
    spans = _spans(chosen.rows)
    if spans.table.empty:
        return empty("Every row of some iterations", f"no row of {chosen.steps.in_words()} has instants")
    length_ms = float((spans.table["begin_ms"] + spans.table["ms"]).max())
    since = "since the first row" if spans.is_common else "since the rank's own first row"
    return lanes(
        _traces(spans.table), f"Every row of {chosen.steps.in_words()}: {length_ms:.1f} ms in all",
        list(_notes(spans, chosen)), f"time {since}, in ms", spans.labels, barmode="overlay",
    )  # fmt: skip


def _spans(rows: pd.DataFrame) -> _Spans:
    placed = spans_of(rows)
    axis = "" if placed.is_common else "own_"
    begin_s, duration_s = placed.rows[f"{axis}begin_s"], placed.rows[f"{axis}duration_s"]
    table = placed.rows.assign(begin_ms=1e3 * (begin_s - begin_s.min()), ms=1e3 * duration_s)
    table = table[table["ms"] >= 0].assign(operation=table["operation"].astype(str))
    longest = table.sort_values("ms", ascending=False, kind="stable").head(MAX_BARS)
    lane, labels = _lanes(longest)
    kinds = [kind_of(name) for name in longest["operation"]]
    drawn = longest.assign(lane=lane, kind=kinds)  # the longest first: shorter ones lie over them
    return _Spans(drawn, labels, placed.is_common, len(table) - len(longest))


def _lanes(rows: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Return the label of each row's lane, and those of all lanes, by rank and thread."""
    is_device = (rows["clock"] != HOST_CLOCK).tolist()
    columns = (rows[name].tolist() for name in ("rank", "incarnation", "thread"))
    keys = list(zip(*columns, is_device, strict=True))
    distinct = sorted(set(keys), key=lambda key: (key[0], key[1], str(key[2]), key[3]))
    of_process = [key[:2] for key in distinct]
    label_of = {key: _label(key, alone=of_process.count(key[:2]) == 1) for key in distinct}
    return [label_of[key] for key in keys], list(label_of.values())


def _label(key: tuple[int, int, str, bool], *, alone: bool) -> str:
    rank, incarnation, thread, is_device = key
    device = " (device)" if is_device else ""
    return process_name(rank, incarnation) + ("" if alone else f", {text(thread)}{device}")


def _traces(table: pd.DataFrame) -> Iterator[Any]:
    """Yield the bars of each kind of row, those first that others are drawn over."""
    for kind, colour in OF_ROWS.items():
        its = table[table["kind"] == kind]
        if len(its):
            yield graph_objects().Bar(
                orientation="h",
                name=kind,
                y=its["lane"].tolist(),
                base=its["begin_ms"].tolist(),
                x=its["ms"].tolist(),
                width=_WIDTHS[kind],
                marker=hatched(colour) if kind == "waiting" else solid(colour),
                hovertext=[_says(row) for row in its.to_dict("records")],
                hovertemplate=HOVER,
            )


def _says(row: dict[Any, Any]) -> str:
    layer = f" of {text(row['layer_name'])}" if row["layer_name"] else ""
    what = f"{text(row['operation'])}{layer} {as_duration(row['ms'])}"
    return f"{row['lane']}, iteration {row['iteration']}:<br>{what}"


def _notes(spans: _Spans, chosen: Chosen) -> Iterator[str]:
    yield "Narrower bars lie over what they overlap."
    n_drawn = chosen.rows["rank"].nunique()
    if n_drawn < chosen.n_ranks:
        yield (
            f"Of {chosen.n_ranks:,} ranks {n_drawn} are drawn: those that the verdict names, and some to "
            f"compare them with; {chosen.n_ranks - n_drawn:,} are left out."
        )
    if spans.n_left_out:
        yield f"The {spans.n_left_out:,} shortest rows are left out."
    if not spans.is_common:
        yield "The clocks are not known to agree: compare lengths between ranks, and not instants."
