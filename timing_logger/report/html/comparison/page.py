"""The page of a comparison: the result of ``compare_runs`` in the template."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from timing_logger.analysis.comparison.result import Comparison
from timing_logger.reading.atomic_files import draft_of
from timing_logger.report._wording import count
from timing_logger.report.comparison_cause_wording import cause_sentences
from timing_logger.report.comparison_row_wording import DIVIDED
from timing_logger.report.comparison_wording import (
    sides_sentences,
    told_of_comparison,
    unlike_sentences,
)
from timing_logger.report.html.comparison._course import course_chart
from timing_logger.report.html.comparison._differences import differences_table
from timing_logger.report.html.comparison._forest import forest
from timing_logger.report.html.comparison._parts import step_parts
from timing_logger.report.html.comparison._runs import runs_chart
from timing_logger.report.html.page import rendered, static_text, style

AnyPath: TypeAlias = "str | os.PathLike[str]"

_NAMES = "these runs", "against"


def write_comparison(found: Comparison, path: AnyPath, *, unusable: Sequence[str] = ()) -> None:
    """Write :func:`comparison_html` to a file, which is replaced if it exists.

    Args:
        found, unusable: as for :func:`comparison_html`.
        path: the file.

    Raises:
        ConfigurationError: Jinja2 is not installed.
        LogPathError: the file cannot be written, or must not be replaced: a folder, a device, a timing file.
            An existing file is then unchanged.
    """
    page = comparison_html(found, unusable=unusable)
    with draft_of(Path(path)) as draft:
        draft.write_text(page, encoding="utf-8")


def comparison_html(found: Comparison, *, unusable: Sequence[str] = ()) -> str:
    """Return a comparison as one HTML document without scripts and without references to other documents.

    It contains, in this order: the verdict, what the sides do not have in common and what explains the
    change; the differences with their intervals; the step in the course of the runs; its parts on both sides;
    each run as a point; and tables of everything. The same comparison gives the same text.

    Args:
        found: what ``compare_runs`` returns.
        unusable: what could not be used of a history, in words.

    Raises:
        ConfigurationError: Jinja2 is not installed.
    """
    headline, *further = told_of_comparison(found)
    return rendered(
        "comparison.html.jinja",
        {
            "style": f"{style()}\n{static_text('comparison.css')}",
            "title": _title(found),
            "sides": list(sides_sentences(found)),
            "verdict": found.verdict,
            "headline": headline,
            "further": further,
            "unlike": list(unlike_sentences(found)),
            "unusable": list(unusable),
            "causes": list(cause_sentences(found)),
            "divided": DIVIDED if any(one.does == "divided" for one in found.differences) else "",
            "forest": forest(found),
            "course": course_chart(found, _NAMES),
            "step_parts": step_parts(found, _NAMES),
            "runs": runs_chart(found, _NAMES),
            "differences": differences_table(found),
        },
    )


def _title(found: Comparison) -> str:
    here, against = len(found.here.runs), len(found.against.runs)
    return (
        f"{count(here, 'run')} against {count(against, 'run')}"
        if here == 1
        else f"{here:,} runs against {against:,}"
    )
