"""The command line of benchmarks whose tables are in a page: what is measured, and where the tables go.

In the page they stand between ``<!-- made: NAME -->`` and ``<!-- end -->``; all else is written by hand.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

Parts: TypeAlias = Mapping[str, Callable[[argparse.Namespace], Iterator[str]]]
"""By name, what yields the lines of a table, given what the command line says."""

MADE = re.compile(r"(?<=<!-- made: )(?P<name>[\w ]+) -->\n(.*?)(?=<!-- end -->)", re.DOTALL)


def parser_of(about: str | None, quick: str) -> argparse.ArgumentParser:
    """Return the parser of such a benchmark, to which it may add options of its own.

    Args:
        about: what the benchmark says of itself.
        quick: what ``--quick`` makes of it.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--only", default="", metavar="REGEX", help="only the parts with such names")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the page whose tables are made anew")
    return parser


def measure(parser: argparse.ArgumentParser, parts: Parts) -> None:
    """Measure the parts that the command line chooses; print each, and write it into the page at once."""
    options = parser.parse_args()
    chosen = [name for name in parts if re.search(options.only, name)]
    if not chosen:
        parser.error(f"no part matches {options.only!r}: there are {', '.join(parts)}")
    os.environ.setdefault(
        "OMP_NUM_THREADS", "1"
    )  # what is measured starts as many processes as there are cores
    for name in chosen:
        lines = list(_printed(name, parts[name](options)))
        if options.write:
            write(options.write, {name: lines})


def _printed(name: str, lines: Iterator[str]) -> Iterator[str]:
    began_s = time.perf_counter()
    print(f"== {name}", flush=True)
    for line in lines:
        print(line, flush=True)
        yield line
    print(f"   {time.perf_counter() - began_s:.0f} s", flush=True)


def write(page: Path, parts: Mapping[str, Sequence[str]]) -> None:
    """Rewrite each of these parts of a page."""

    def made(part: re.Match[str]) -> str:
        lines = parts.get(part["name"])
        return part[0] if lines is None else "\n".join([f"{part['name']} -->", *lines, ""])

    page.write_text(MADE.sub(made, page.read_text(encoding="utf-8")), encoding="utf-8")
