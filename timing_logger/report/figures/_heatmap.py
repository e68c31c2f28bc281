"""The figure of rank by iteration: how long each rank took on its own account."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis import overlap, summarize_ranks
from timing_logger.analysis.stragglers.case import Judgement
from timing_logger.analysis.table_types import Floats
from timing_logger.reading.named_ranks import named_ranks
from timing_logger.report._limits import FEW_PROCESSES
from timing_logger.report._wording import count
from timing_logger.report.figures._colours import SHADES
from timing_logger.report.figures._drawing import empty, figure, graph_objects, text
from timing_logger.report.figures._tables import in_pandas, judged
from timing_logger.report.html._crowd import Crowd
from timing_logger.report.html._heatmap import grid_of
from timing_logger.report.html._heatmap_grid import Grid
from timing_logger.report.html._heatmap_rows import Rows, each_process, worst_and_others
from timing_logger.report.html._own_times import OwnTimes

if TYPE_CHECKING:
    import plotly.graph_objects as go

_STRONGEST_AT, _LEAST_SPREAD = 0.98, 1.5
"""As in heatmap.js of the page: one hiccup must not make all else look alike, nor noise look like news."""

_ROW_PX, _LABEL_PX, _LEAST_PX, _AROUND_PX = 14, 11, 260, 170
"""A row has room for its label."""


def heatmap_figure(timings: IntoDataFrameT) -> go.Figure:
    """Draw how long each rank took on its own account in each iteration: the times that the verdict compares.

    They are those of the view *Own time* of the page: the rows of own work without waiting for others, or,
    where no such rows are logged, the time between communication. A rank that is slow is a dark row, and
    iterations in which it is slow are dark cells. With more than 1000 iterations (300 of more than 64 ranks)
    a cell is the mean of several. Of more than 64 ranks the worst 64 have a row each, and the others are
    shown by the mean of each host and by bands: in each cell the longest of them all, the shortest, and three
    between.

    Args:
        timings: as ``read_timings`` returns.

    Returns:
        The figure; one that says so if no row belongs to an iteration.

    Raises:
        ConfigurationError: plotly is not installed.
        TableError: the timings have no column ``rank``.
    """
    steps = in_pandas(overlap(timings))
    steps = steps[steps["iteration"].notna()]
    judgement = judged(timings)
    own = OwnTimes.of(judgement)
    if steps.empty or np.isnan(own.ms).all():
        return empty("Own time by rank and iteration", "no iteration with a rank's own time")
    crowd = _crowd(timings, judgement, own)
    grid = grid_of(steps, crowd)
    ms = grid.means_of_own(own).reshape(len(grid.rows), -1)
    rows = _rows(grid, crowd, ms)
    median = f"Half of the cells take more than {np.nanmedian(ms):.1f} ms."
    notes = [median, *_on_columns(grid), *_on_ranks_left_out(rows)]
    return figure(
        [_trace(rows.names, rows.values(ms), grid)], _title(judgement), notes, _x_title(grid), "",
        height=max(_LEAST_PX, _ROW_PX * len(rows.names)) + _AROUND_PX,
        xaxis={"type": "category"} if len(grid.axis.epochs) else {},
        yaxis={"type": "category", "autorange": "reversed", "dtick": 1, "tickfont": {"size": _LABEL_PX}},
    )  # fmt: skip


def _crowd(timings: Any, judgement: Judgement, own: OwnTimes) -> Crowd:
    account = judgement.case.times.account
    assert account is not None  # it was asked for
    files = getattr(timings, "attrs", {}).get("files", [])
    return Crowd.of_account(account, in_pandas(summarize_ranks(timings)), files, judgement.verdict, own)


def _rows(grid: Grid, crowd: Crowd, ms: Floats) -> Rows:
    if crowd.is_many and len(grid.rows) > FEW_PROCESSES:
        return worst_and_others(grid.rows, crowd, ms)
    return each_process(grid.rows, [])


def _trace(names: list[str], ms: Floats, grid: Grid) -> Any:
    least, most = _shade_ends(ms)
    return graph_objects().Heatmap(
        x=_steps(grid),
        y=[text(name) for name in names],
        z=ms,
        zmin=least,
        zmax=most,
        colorscale=SHADES,
        colorbar={"title": "own time, ms"},
        hoverongaps=False,
        hovertemplate="%{y}, iteration %{x}: %{z:.1f} ms<extra></extra>",
    )


def _steps(grid: Grid) -> list[Any]:
    """Return what stands below each column: its first iteration, with the epoch where iterations restart."""
    first, _ = grid.edges()
    epoch, iteration = np.divmod(first, len(grid.axis.iterations))
    iterations: list[Any] = grid.axis.iterations[iteration].tolist()
    if not len(grid.axis.epochs):
        return iterations
    epochs = grid.axis.epochs[epoch].tolist()
    return [f"{one} of epoch {of}" for one, of in zip(iterations, epochs, strict=True)]


def _shade_ends(ms: Floats) -> tuple[float, float]:
    """Return what the faintest and the strongest shade stand for, as on the page."""
    known = np.sort(ms[~np.isnan(ms)])
    last = len(known) - 1
    least, most = (float(known[int(part * last)]) for part in (1 - _STRONGEST_AT, _STRONGEST_AT))
    return least, max(most, least * _LEAST_SPREAD) or float(known[-1])


def _title(judgement: Judgement) -> str:
    """Return what is shown, and which ranks the verdict names."""
    verdict = judgement.verdict
    title = "Own time by rank and iteration"
    if not verdict.ranks:
        return f"{title}: no rank is named as slow" if verdict.verdict == "healthy" else title
    when = f", {verdict.when}" if verdict.when else ""
    return f"{title}: the verdict names {named_ranks(verdict.ranks)}{when}"


def _x_title(grid: Grid) -> str:
    return "iteration" if grid.per_column == 1 else "first iteration of those that the column stands for"


def _on_columns(grid: Grid) -> Iterator[str]:
    if grid.per_column > 1:
        yield f"A column is the mean of up to {count(grid.per_column, 'iteration')}."


def _on_ranks_left_out(rows: Rows) -> Iterator[str]:
    """Yield the sentence that says which ranks have no row of their own, and what stands for them."""
    if len(rows.others):
        named, others = len(rows.processes), len(rows.others)
        hosts = "the mean of each host and by " if rows.hosts else ""
        yield (
            f"Of {named + others:,} ranks the worst {named} have a row each. The other {others:,} are shown "
            f"by {hosts}bands: in each cell the longest of them all, the shortest, and three between."
        )
