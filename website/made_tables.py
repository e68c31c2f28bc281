"""Rewrites the tables of two pages: the numbers of ``Policy``, and the figures of ``SERIES``.

make numbers runs it. One of them, and another page, may be named: website/made_tables.py numbers PAGE. Why a
number is what it is, the page leaves to ``timing-logger stragglers --why``, which prints all reasons.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

from timing_logger.analysis import Policy
from timing_logger.live.series import OF_JOB, OF_RANK, Series
from timing_logger.results import policy

DOCS = Path(__file__).parent.parent / "docs"
PAGES = {"numbers": DOCS / "stragglers-numbers.md", "series": DOCS / "dashboards.md"}
"""The pages, by what is made in them."""

RANGES = {
    policy.share.args[0]: "share",
    policy.between.args[0]: "fraction",
    policy.positive.args[0]: "positive",
    policy.factor.args[0]: "factor",
    policy.count.args[0]: "count",
}
"""What the page calls the ranges of numbers, by what an error says of them."""


def table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table, below an empty one."""
    yield from ("", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}")
    yield from (f"| {' | '.join(row)} |" for row in rows)


def numbers() -> Iterator[str]:
    """Yield the lines of the tables, one for each thing that numbers are about, below what the ranges are."""
    range_of = {one.name: RANGES[one.metadata["range"]] for one in fields(Policy)}
    yield from ("", *(f"- *{name}*: {range_}" for range_, name in RANGES.items()))
    for about, of_it in Policy().numbers().items():
        rows = ((f"`{one.name}`", f"{one.value:.4g}", range_of[one.name]) for one in of_it)
        yield from table((about, "default", "range"), rows)
    yield ""


def series() -> Iterator[str]:
    """Yield the lines of the two tables of figures."""
    for about, of_it in (("of the job", OF_JOB), ("of each of the worst ranks", OF_RANK)):
        yield from table((about, "meaning"), ((f"`{_labelled(one)}`", one.help) for one in of_it))
    yield ""


def _labelled(one: Series) -> str:
    return one.full_name + (f"{{{','.join(one.labels)}}}" if one.labels else "")


def rewrite(name: str, page: Path) -> None:
    """Put what is made in its place in a page."""
    made = "".join(f"{line}\n" for line in {"numbers": numbers, "series": series}[name]())
    place = re.compile(rf"(?<=<!-- made: {name} -->\n).*?(?=<!-- end -->)", re.DOTALL)
    text, places = place.subn(lambda _: made, page.read_text(encoding="utf-8"))
    if places != 1:
        raise SystemExit(f"{page} has no place for the tables: <!-- made: {name} --> and <!-- end -->")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name, page in [(sys.argv[1], Path(sys.argv[2]))] if len(sys.argv) > 1 else PAGES.items():
        rewrite(name, page)
