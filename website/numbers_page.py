"""Rewrites the tables of the policy's numbers in docs/stragglers-numbers.md, from the fields of ``Policy``.

make numbers runs it. Another page may be named: website/numbers_page.py PAGE. Why a number is what it is, the
page leaves to ``timing-logger stragglers --why``, which prints all reasons.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from timing_logger.analysis import Policy
from timing_logger.results import policy

PAGE = Path(__file__).parent.parent / "docs" / "stragglers-numbers.md"
MADE = re.compile(r"(?<=<!-- made: numbers -->\n).*?(?=<!-- end -->)", re.DOTALL)

RANGES = {
    policy.share.args[0]: "share",
    policy.between.args[0]: "fraction",
    policy.positive.args[0]: "positive",
    policy.factor.args[0]: "factor",
    policy.count.args[0]: "count",
}
"""What the page calls the ranges of numbers, by what an error says of them."""


def tables() -> Iterator[str]:
    """Yield the lines of the tables, one for each thing that numbers are about, below what the ranges are."""
    range_of = {one.name: RANGES[one.metadata["range"]] for one in fields(Policy)}
    yield from ("", *(f"- *{name}*: {range_}" for range_, name in RANGES.items()))
    for about, numbers in Policy().numbers().items():
        yield from ("", f"| {about} | default | range |", "|---|---|---|")
        for number in numbers:
            yield f"| `{number.name}` | {number.value:.4g} | {range_of[number.name]} |"
    yield ""


def main() -> None:
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    made = "".join(f"{line}\n" for line in tables())
    text, places = MADE.subn(lambda _: made, page.read_text(encoding="utf-8"))
    if places != 1:
        raise SystemExit(f"{page} has no place for the tables: <!-- made: numbers --> and <!-- end -->")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
