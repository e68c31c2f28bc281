"""What a notebook shows: a verdict with its picture, or the whole report, in a frame below the cell."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import pandas as pd

from timing_logger.results.verdict import Verdict

_HEIGHT_PX = 900


class InlinePage:
    """A page that a notebook shows below its cell.

    Attributes:
        page: the HTML document.
        height_px: the height of its frame.
    """

    def __init__(self, page: str, height_px: int) -> None:
        self.page = page
        self.height_px = height_px

    def _repr_html_(self) -> str:
        """Return the frame; its page can run its own scripts, and reach nothing of the notebook."""
        return (
            f'<iframe sandbox="allow-scripts" title="Timing report" srcdoc="{escape(self.page)}" '
            f'style="width:100%;height:{self.height_px}px;border:0"></iframe>'
        )


def inline(
    timings: pd.DataFrame,
    *,
    host: pd.DataFrame | None = None,
    stacks: pd.DataFrame | None = None,
    sections: Sequence[str] = (),
    height_px: int = _HEIGHT_PX,
) -> InlinePage:
    """Show the HTML report, or some of its sections, in a notebook.

    Args:
        timings, host, stacks: as for :func:`timing_logger.report.html.report_html`.
        sections: which are shown: ``verdict``, ``time``, ``heatmap``, ``operations``, ``bandwidth``,
            ``overlap``, ``compression``, ``timeline`` or ``accounting``; the whole page if none is named.
        height_px: the height of the frame, in which the page scrolls.

    Returns:
        What a notebook shows as the last expression of a cell, or with ``display``.

    Raises:
        ConfigurationError: a section that there is not; Jinja2 is not installed.
    """
    from timing_logger.report.html.page import report_html, section_html  # read where a page is wanted

    if sections:
        return InlinePage(section_html(timings, sections, host, stacks), height_px)
    return InlinePage(report_html(timings, host=host, stacks=stacks), height_px)


def verdict_html(verdict: Verdict) -> str:
    """Return a verdict as HTML for a notebook: its words, the suspects and a typical step.

    Raises:
        ConfigurationError: Jinja2 is not installed.
    """
    from timing_logger.report.html.page import verdict_cell

    return InlinePage(*verdict_cell(verdict))._repr_html_()


Verdict.drawn_by = verdict_html
