"""Rewrites the tables of the policy's numbers in docs/stragglers-numbers.md, from the fields of ``Policy``.

make numbers runs it. Another page may be named: website/numbers_page.py PAGE.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from timing_logger.analysis import Policy

PAGE = Path(__file__).parent.parent / "docs" / "stragglers-numbers.md"
MADE = re.compile(r"(?<=<!-- made: numbers -->\n).*?(?=<!-- end -->)", re.DOTALL)


def tables() -> Iterator[str]:
    """Yield the lines of the tables, one for each thing that numbers are about."""
    for about, numbers in Policy().numbers().items():
        yield from ("", f"| {about} | | |", "|---|---|---|")
        for number in numbers:
            yield f"| `{number.name}` | {number.value:.4g} | {number.reason} |"
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
