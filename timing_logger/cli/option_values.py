"""The values of options: what was typed, as the analyses take it; or an error that says what to type."""

from __future__ import annotations

import argparse
import math
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from timing_logger.cli.stderr import say
from timing_logger.errors import NoTimingFilesError
from timing_logger.process.shared_files import matching
from timing_logger.schema.timing_files import CALLED, KEYS, TimingFile

if TYPE_CHECKING:
    from timing_logger.results.what_if import Fix


HANG, UNFINISHED = "hang", "unfinished"
"""The names in ``--fail-on`` for a run that hung, and for one that was not closed though nothing hangs."""

UNJUDGED = "unjudged"
"""The name in ``--fail-on`` for a run in which no rank could be judged."""

MOST_PORT = 65535

VERDICTS = ("rank", "suspect", "role", "group-wide", "communication", "diffuse", HANG, UNJUDGED)
ENDS = (HANG, UNFINISHED)
CHANGES = ("regressed", "improved", "undecided")


def keys(text: str) -> list[str]:
    """Return the columns named, such as ``layer,rank``."""
    column_of = {word: column for column, word in CALLED.items()}
    names = [column_of.get(name, name) for name in text.split(",")]
    return _some_of(names, KEYS, text)


def some_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Return what takes names of these, each once, such as ``rank,hang``."""
    return lambda text: _some_of(text.split(","), known, text)


def fix(text: str) -> Fix:
    """Return a repair such as ``rank=2``."""
    from timing_logger.errors import FixError
    from timing_logger.results.what_if import Fix

    try:
        return Fix.parse(text)
    except FixError as error:
        raise argparse.ArgumentTypeError(str(error).partition(": ")[2] or str(error)) from None


def part(text: str) -> float:
    """Return a part of a whole as a fraction, of ``5%`` or ``0.05``."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,9})?)(%?)", text)
    value = float(match[1]) / (100 if match[2] else 1) if match else math.nan
    if not 0 <= value < _MOST_PART:
        raise argparse.ArgumentTypeError(f"{text!r}: say a percentage from 0% to below 1000%, such as 5%")
    return value


_MOST_PART = 10.0


def _some_of(names: list[str], known: Sequence[str], text: str) -> list[str]:
    if not set(names) <= set(known) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r}: name each once, of {', '.join(known)}")
    return names


def ranks(text: str) -> set[int]:
    """Return the ranks of a list such as ``0,2,8-15``."""
    ranks: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if match is None:
            raise argparse.ArgumentTypeError(f"{text!r}: say ranks and ranges with commas, such as 0,2,8-15")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise argparse.ArgumentTypeError(f"{text!r}: say the lower rank of {part} first")
        ranks.update(range(first, last + 1))
    return ranks


def iterations(text: str) -> slice:
    """Return the slice of ``A:B``, of which either may be left out."""
    match = re.fullmatch(r"(\d*):(\d*)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r}: say A:B, such as 100:200, 100: or :200")
    start, stop = (int(number) if number else None for number in match.groups())
    return slice(start, stop)


def run(text: str) -> str | int:
    """Return the value of ``incarnations`` for ``read_timings``."""
    if text in ("last", "all"):
        return "latest" if text == "last" else text
    if re.fullmatch(r"[1-9]\d*", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r}: say last, all, or the number of a run, such as 2")
    return int(text)


def seconds(text: str) -> float:
    """Return a number of seconds above 0."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}: say a number of seconds above 0")
    return seconds


def count(text: str) -> int:
    """Return an integer above 0."""
    if re.fullmatch(r"[1-9]\d{0,8}", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r}: say an integer above 0")
    return int(text)


def port(text: str) -> int:
    """Return the number of a port; 0 stands for one that is free."""
    if re.fullmatch(r"\d{1,5}", text) is None or int(text) > MOST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r}: say a port, 0 to {MOST_PORT}; the folder comes before")
    return int(text)


# -- colours in what commands print, where a terminal has them -----------------------------------------


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


# -- the folder that a command is about if none was named ------------------------------------------------


FOLDERS = ("logs/timing", "logs/run")
"""Where ``init_timing_logger``, ``autolog`` and ``timing-logger run`` write if no other folder is named."""


def name_folder(arguments: Namespace) -> None:
    """Fill in the folder of the newest run, if the command has an argument ``logdir`` that was left out.

    Raises:
        NoTimingFilesError: there is no run in the default folders.
    """
    if getattr(arguments, "logdir", "named") not in (None, []):
        return
    folder = _newest()
    if folder is None:
        raise NoTimingFilesError(
            f"LOGDIR: none was named, and there are no timing files in {' or '.join(FOLDERS)}, or in a "
            "folder of these. Name the folder of a run."
        )
    say(f"no LOGDIR was named; this is about {folder}, the default folder that was written to last")
    arguments.logdir = [str(folder)] if arguments.logdir == [] else str(folder)


def _newest() -> Path | None:
    """Return the folder with the latest written timing file, of the default ones and those right below."""
    files = [
        file
        for folder in map(Path, FOLDERS)
        for pattern in ("timing-rank*", "*/timing-rank*")
        for file in matching(folder, pattern)
        if TimingFile.parse(file.name)
    ]
    return max(files, key=lambda file: file.stat().st_mtime_ns).parent if files else None
