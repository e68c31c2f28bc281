"""What all figures have in common: plotly, a title that says what is seen, and axes with units."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from timing_logger.errors import ConfigurationError
from timing_logger.record import escape_text
from timing_logger.report.figures._colours import INK

if TYPE_CHECKING:
    import plotly.graph_objects as go

_TITLE_LINE, _LINE = 80, 120
"""The letters of a line of the title, and below it: so many have room in the cell of a notebook."""

_TITLE_PX, _LINE_PX, _BELOW_PX = 60, 18, 60
_PAD_PX = 18
_BAR_PX, _LEAST_PX = 34, 240
"""A bar is high enough to point at; less than this is no picture."""

HOVER = "%{hovertext}<extra></extra>"
"""What is shown where one points: all of it comes as text, so that names in data are no templates."""


def graph_objects() -> Any:
    """Import and return ``plotly.graph_objects``.

    Raises:
        ConfigurationError: plotly is not installed.
    """
    try:
        return import_module("plotly.graph_objects")
    except ModuleNotFoundError as error:
        raise ConfigurationError("figures need plotly: pip install timing_logger[figures].") from error


def text(name: object) -> str:
    """Return a name from the data as plotly shows it: none of it is taken for a tag."""
    return html.escape(escape_text(str(name)), quote=False)


def figure(
    traces: Iterable[Any], title: str, notes: Sequence[str], x_title: str, y_title: str, **layout: Any
) -> go.Figure:
    """Return a figure.

    Args:
        traces: what is drawn.
        title: what is seen.
        notes: sentences below the title.
        x_title, y_title: what the axes count, with the unit.
        layout: more of plotly's layout.
    """
    said = _said(title, notes)
    drawn = graph_objects().Figure(list(traces))
    drawn.update_layout(
        template="plotly_white",
        title={"text": said, "x": 0.01, "xanchor": "left", "y": 1, "yanchor": "top", "pad": {"t": _PAD_PX}},
        margin={"t": _TITLE_PX + _LINE_PX * said.count("<br>"), "b": _BELOW_PX},
        font={"color": INK},
        legend={"traceorder": "normal"},
    )
    drawn.update_layout(**layout)
    drawn.update_xaxes(title=x_title)
    drawn.update_yaxes(title=y_title, ticks="outside", ticklen=5, tickcolor="rgba(0,0,0,0)")
    return drawn


def lanes(
    traces: Iterable[Any],
    title: str,
    notes: Sequence[str],
    x_title: str,
    labels: Sequence[str],
    **layout: Any,
) -> go.Figure:
    """Return a figure of horizontal bars, the first label at the top.

    Args:
        traces, title, notes, x_title, layout: as for :func:`figure`.
        labels: the labels of all bars.
    """
    lines = _said(title, notes).count("<br>")
    height = _TITLE_PX + _LINE_PX * lines + _BELOW_PX + _BAR_PX * (len(labels) + 1)
    drawn = figure(traces, title, notes, x_title, "", height=max(height, _LEAST_PX), **layout)
    drawn.update_yaxes(
        type="category", categoryorder="array", categoryarray=list(labels), range=[len(labels) - 0.5, -0.5]
    )
    return drawn


def empty(title: str, said: str) -> go.Figure:
    """Return a figure of nothing but a sentence that says what there is not."""
    drawn = graph_objects().Figure()
    drawn.update_layout(
        template="plotly_white",
        height=_LEAST_PX,
        title={"text": _said(title, []), "x": 0.01, "xanchor": "left"},
        font={"color": INK},
        annotations=[
            {"text": said, "x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper", "showarrow": False}
        ],
    )
    drawn.update_xaxes(visible=False)
    drawn.update_yaxes(visible=False)
    return drawn


def _said(title: str, notes: Iterable[str]) -> str:
    """Return the title with the notes below it, in lines that a notebook has room for."""
    bold = "<br>".join(text(line) for line in textwrap.wrap(title, _TITLE_LINE))
    small = [text(line) for note in notes for line in textwrap.wrap(note, _LINE)]
    below = "".join(f'<br><span style="font-size:0.75em">{line}</span>' for line in small)
    return f"<b>{bold}</b>{below}"
