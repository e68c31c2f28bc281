"""Figures have the colours of the page."""

from __future__ import annotations

import re

import pytest

from timing_logger.report.figures import _colours
from timing_logger.report.html.page import style

LIGHT = style().split("@media", maxsplit=1)[0]


@pytest.mark.parametrize(
    ("variable", "colour"),
    [
        ("work", _colours.WORK),
        ("communication", _colours.COMMUNICATION),
        ("waiting", _colours.WAITING),
        ("copies", _colours.COPIES),
        ("others", _colours.OTHERS),
        ("ink", _colours.INK),
        ("low", _colours.SHADES[0][1]),
        ("high", _colours.SHADES[1][1]),
    ],
)
def test_a_colour_is_that_of_the_style_sheet(variable: str, colour: str) -> None:
    found = re.search(rf"--{variable}: (#\w+);", LIGHT)
    assert found
    assert found[1] == colour


@pytest.mark.parametrize("kind", re.findall(r"^\.time-([\w-]+) ", style(), re.MULTILINE))
def test_each_kind_of_time_is_hatched_where_it_is_on_the_page(kind: str) -> None:
    rule = re.search(rf"^\.time-{kind} .*$", style(), re.MULTILINE)
    assert rule
    marker = _colours.marker(kind)
    assert ("pattern" in marker) == ("repeating" in rule[0])
    strength = re.search(r"(\d+)%, var\(--card\)", rule[0])
    base = re.search(r"var\(--(\w+)\)", rule[0])
    assert base
    (colour,) = re.findall(rf"--{base[1]}: (#\w+);", LIGHT)
    assert marker["color"] == _colours.mixed(colour, int(strength[1]) / 100 if strength else 1.0)
