"""Rewrites the table of figures in docs/dashboards.md, from ``SERIES``.

make numbers runs it. Another page may be named: website/series_page.py PAGE.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from timing_logger.live.series import OF_JOB, OF_RANK, Series

PAGE = Path(__file__).parent.parent / "docs" / "dashboards.md"
MADE = re.compile(r"(?<=<!-- made: series -->\n).*?(?=<!-- end -->)", re.DOTALL)


def table(about: str, rows: Sequence[Series]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield from ("", f"| {about} | meaning |", "|---|---|")
    for series in rows:
        labels = f"{{{','.join(series.labels)}}}" if series.labels else ""
        yield f"| `{series.full_name}{labels}` | {series.help} |"


def main() -> None:
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    lines = [*table("of the job", OF_JOB), *table("of each of the worst ranks", OF_RANK), ""]
    made = "".join(f"{line}\n" for line in lines)
    text, places = MADE.subn(lambda _: made, page.read_text(encoding="utf-8"))
    if places != 1:
        raise SystemExit(f"{page} has no place for the tables: <!-- made: series --> and <!-- end -->")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
