"""The command line of benchmarks whose tables are in a page: what is measured, and where the tables go.

In the page they stand between ``<!-- made: NAME -->`` and ``<!-- end -->``; all else is written by hand. What
has no such place in the page is kept in ``data/PAGE-NAME.txt`` beside it.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    """Rewrite each of these parts of a page, or the file of a part that has no place there."""
    text = page.read_text(encoding="utf-8")
    made = {name: "\n".join([*lines, ""]) for name, lines in parts.items()}
    for name in made.keys() - {part["name"] for part in MADE.finditer(text)}:
        file = data_file(page, name, "txt")
        file.parent.mkdir(exist_ok=True)
        file.write_text(made[name], encoding="utf-8")
    text = MADE.sub(lambda part: f"{part['name']} -->\n{made.get(part['name'], part[2])}", text)
    page.write_text(text, encoding="utf-8")


# -- data files ----------------------------------------------------------------------------------------------


def data_file(page: Path, name: str, kind: str = "csv") -> Path:
    """Return the file of a part of a page: ``data/PAGE-NAME.csv`` beside it."""
    return page.parent / "data" / f"{page.stem}-{name.replace(' ', '-')}.{kind}"


def write_csv(file: Path, heading: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a data file anew."""
    file.parent.mkdir(exist_ok=True)
    with file.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([heading, *rows])


def write_into_csv(file: Path, heading: Sequence[str], rows: Iterable[Sequence[str]], n_keys: int) -> None:
    """Put rows in the place of those with the same first ``n_keys`` cells; all others of the file stay."""
    kept = {tuple(row[:n_keys]): row for row in read_csv(file)}
    kept.update({tuple(row[:n_keys]): list(row) for row in rows})
    write_csv(file, heading, kept.values())


def read_csv(file: Path) -> list[list[str]]:
    """Return the rows of a data file, without its heading; none if there is no file."""
    return [*csv.reader(file.read_text(encoding="utf-8").splitlines())][1:] if file.exists() else []
