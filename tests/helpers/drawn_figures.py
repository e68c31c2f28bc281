"""Reads plotly figures back into tables, and states what they say in words."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd


def bars_of(figure: Any) -> pd.DataFrame:
    """Return a row for each bar: its trace, where it is, its ``length``, ``base``, and what it says."""
    rows = [
        {"name": trace.name, "lane": lane, "length": length, "base": base, "says": says}
        for trace in figure.data
        if trace.type == "bar" and trace.orientation == "h"
        for lane, length, base, says in zip(
            trace.y, trace.x, trace.base or [0.0] * len(trace.x), trace.hovertext, strict=True
        )
    ]
    return pd.DataFrame(rows, columns=["name", "lane", "length", "base", "says"])


def title_of(figure: Any) -> str:
    """Return the title with its notes, without tags."""
    return re.sub(r"<[^>]+>", " ", figure.layout.title.text)


def said_instead(figure: Any) -> str:
    """Return the text of a figure in which nothing is drawn."""
    assert len(figure.data) == 0
    (annotation,) = figure.layout.annotations
    return str(annotation.text)


def lanes_from_top(figure: Any) -> list[str]:
    """Return the labels of the lanes from top to bottom, as plotly places them."""
    axis = figure.layout.yaxis
    low, high = axis.range
    labels = list(axis.categoryarray)
    return labels if low > high else labels[::-1]
