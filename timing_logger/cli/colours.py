"""Colours in what commands print, where a terminal has them; the text itself is the same everywhere."""

from __future__ import annotations

import sys

_STYLES = {
    r"(?m)^Verdict: no rank is slow\.": "bold green",
    r"(?m)^Verdict: (?!no |nobody )(?:.*?\.(?= |$)|.*$)": "bold red",
    r"(?m)^Verdict: (?:no rank (?!is slow\.)|nobody )(?:.*?\.(?= |$)|.*$)": "bold yellow",
    r"/{2,}[^/\n]*/{2,}|/{2,}": "dark_orange3",  # in the picture of a step: a rank waits
    r"={3,}": "blue",  # ... or transfers
    r"(?m)^-{5,}$": "dim",
    r"(?<![\w-])--[a-z][\w-]*": "cyan",  # an option that would tell more
}
"""What is drawn how."""


def print_in_colour(text: str) -> None:
    """Print a report on a terminal, in the colours that it has; in none if ``NO_COLOR`` is set."""
    from rich.console import Console
    from rich.text import Text

    drawn = Text(text)
    for pattern, style in _STYLES.items():
        drawn.highlight_regex(pattern, style)
    Console(file=sys.stdout, soft_wrap=True, highlight=False).print(drawn, end="")
