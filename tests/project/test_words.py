"""One word for one thing: CONTRIBUTING.md, Words."""

from __future__ import annotations

import re
from pathlib import Path

from places import ROOT

SOURCES = [
    path
    for folder in ("timing_logger", "allreduce_instrumentation", "benchmarks", "examples", "website")
    for suffix in ("py", "pyx", "pxi")
    for path in sorted((ROOT / folder).rglob(f"*.{suffix}"))
]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EVERY_PAGE = [path for folder in (".", ".github", "docs", "website") for path in (ROOT / folder).glob("*.md")]
EVERY_PAGE += [path for folder in ("docs", "website/pages") for path in (ROOT / folder).glob("*/**/*.md")]
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def prose() -> dict[Path, str]:
    """Return the pages without what is shown as code."""
    return {path: CODE.sub("", path.read_text("utf-8")) for path in PAGES}


def matches(pattern: str, text: str) -> list[str]:
    return [at[0] for at in re.finditer(pattern, text)]


def test_what_says_whether_something_is_so_begins_with_tell_whether() -> None:
    other = '"""(Return|Say|State)s? whether'
    assert {path: found for path in SOURCES if (found := matches(other, path.read_text("utf-8")))} == {}


def test_the_pages_say_synchronise_but_for_names_in_code() -> None:
    pattern = r"(?i)\bsynchroniz\w+"
    assert {path: found for path, text in prose().items() if (found := matches(pattern, text))} == {}


def test_the_pages_say_phase_only_of_the_column() -> None:
    pattern = r"(?i)(?<![|,] )\bphases?\b"  # but for a cell of a table, or in a list of columns
    assert {path: found for path, text in prose().items() if (found := matches(pattern, text))} == {}


def test_all_pages_together_have_at_most_55_000_words() -> None:
    assert sum(len(page.read_text("utf-8").split()) for page in EVERY_PAGE) <= 55_000


def test_who_contributes_reads_at_most_2_000_words() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text("utf-8").split()) <= 2_000
