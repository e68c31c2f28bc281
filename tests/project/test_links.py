"""Links of the documentation, and names of files in sources and pages, lead to what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markdown_pages import PAGES, Link, anchors_of, links_of
from places import ROOT

LINKS = [link for page in PAGES for link in links_of(page) if link.is_relative]


def test_there_are_links_to_follow() -> None:
    assert len(LINKS) > 30
    assert any(link.anchor for link in LINKS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [link.target for link in LINKS if link.page == page and not _leads_somewhere(link)] == []


def test_the_index_of_the_documentation_leads_to_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {link.file for link in links_of(index) if link.is_relative}
    assert [page.name for page in PAGES if page != index and page.resolve() not in linked] == []


SOURCES = re.compile(r"\.(md|py|pyx|pxi|c|h|cpp|js|css|jinja)$")
NAME = re.compile(r"(?<![\w.*{}/-])(?:[\w-]+/)*([\w-]+\.(?:pyx|pxi|py|js|cpp))(?![\w*])")
OF_OTHERS = {
    "train.py", "data.py", "script.py", "simulate.py", "train_ray.py",
    "process.py", "spawn.py", "popen_fork.py", "subprocess.py", "external_utils.py", "columns.pxi",
}  # fmt: skip
"""Files of users, of Python and of torch, and those that a build makes."""


def test_files_that_sources_and_pages_name_exist() -> None:
    folders = (
        "timing_logger",
        "allreduce_instrumentation",
        "docs",
        "tests",
        "benchmarks",
        "examples",
        "website",
    )
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.*")]
    there = {file.name for file in (*files, *ROOT.glob("*.py"))}
    sources = [file for file in files if SOURCES.search(file.name) and "tests" not in file.parts]
    named = {
        (str(file.relative_to(ROOT)), name)
        for file in (*sources, ROOT / "CONTRIBUTING.md", ROOT / "README.md")
        for name in NAME.findall(file.read_text(encoding="utf-8", errors="replace"))
    }
    assert len(named) > 100
    assert sorted((file, name) for file, name in named if name not in there | OF_OTHERS) == []


def _leads_somewhere(link: Link) -> bool:
    if not link.file.is_relative_to(ROOT.resolve()) or not link.file.exists():
        return False
    return not link.anchor or link.anchor in anchors_of(link.file)


def test_links_and_anchors_are_read_as_github_reads_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# What `it_does` & costs\n\n"
        "## Why?\n\n## Why?\n\n"
        "Here[^1] [one](a.md#why), [two][ref], ![three](c.png) and `[none](d.md)`.\n\n"
        "| a table |\n|---|\n| [four](#why) |\n\n"
        "```\n# no heading\n[none](e.md)\n```\n\n"
        "[ref]: https://example.org\n"
    )
    assert [link.target for link in links_of(page)] == ["a.md#why", "https://example.org", "c.png", "#why"]
    assert [link.is_relative for link in links_of(page)] == [True, False, True, True]
    assert anchors_of(page) == {"what-it_does--costs", "why", "why-1"}
