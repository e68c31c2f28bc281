"""``make docs``: a page for each file of ``docs/``, and the reference of all that the packages offer."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from limits import scaled
from markdown_pages import PAGES
from places import ROOT

pytestmark = pytest.mark.slow("builds the site twice; .ci/run has make docs build it")

PACKAGES = ["timing_logger", "allreduce_instrumentation"]
OFFERING = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("__init__.py"))]
OFFERING.remove(ROOT / "timing_logger" / "cli" / "__init__.py")  # a page of its own tells of that

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
(ARGUMENTS,) = re.findall(r"/mkdocs (build .*)$", MAKEFILE, re.MULTILINE)


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of a checkout, as its ``make docs`` does, into another folder."""
    pytest.importorskip("mkdocs", reason="MkDocs is not installed (pip install '.[docs]')")
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", *ARGUMENTS.split(), "--site-dir", str(site)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=scaled(300),
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    run = build(ROOT, folder)
    assert run.returncode == 0, run.stderr
    return folder


def test_every_page_of_the_repository_is_a_page_of_the_site(site: Path) -> None:
    menu = _read(site / "index.html").links
    for page in PAGES:
        name = "index" if page.stem == "README" else page.stem
        place = f"{page.relative_to(ROOT).with_name(f'{name}.html')}"
        assert (site / place).is_file()
        assert place in menu or place == "index.html", f"{place} is not in the menu"


def test_what_is_printed_as_sentences_wraps_and_code_does_not(site: Path) -> None:
    front = (site / "index.html").read_text(encoding="utf-8")
    (block,) = re.findall(
        r'<div class="language-(\w+) highlight">(?:(?!</div>).)*Verdict: rank 1 costs', front, re.DOTALL
    )
    style = (site / "extra.css").read_text(encoding="utf-8")
    assert re.findall(r"\.language-(\w+) pre > code \{ white-space: pre-wrap;", style) == [block]
    messages = (site / "docs" / "troubleshooting.html").read_text(encoding="utf-8")
    assert re.search(r'<td><code class="sentence">There is no run ', messages)
    assert "<td><code>only one rank is recorded</code>" in messages


def test_all_that_the_packages_offer_is_in_the_reference(site: Path) -> None:
    documented = {name for page in (site / "api").glob("*.html") for name in _read(page).names}
    objects = {
        name for name in documented if name.rpartition(".")[0] not in documented
    }  # and not their members
    offered = {name for file in OFFERING for name in _offered_by(file)}
    assert len(offered) > 50
    told = {(name.partition(".")[0], name.rpartition(".")[2]) for name in objects}
    assert {
        name for name in offered if (name.partition(".")[0], name.rpartition(".")[2]) not in told
    } == set()


def test_all_commands_are_in_the_reference(site: Path) -> None:
    text = (site / "api" / "cli.html").read_text(encoding="utf-8")
    for command in ("summary", "stragglers", "hang", "report", "convert", "watch"):
        assert f'id="timing-logger-{command}"' in text


def test_all_packages_are_on_the_page_of_modules(site: Path) -> None:
    text = (site / "api" / "modules.html").read_text(encoding="utf-8")
    folders = {file.parent for package in PACKAGES for file in (ROOT / package).rglob("*.py")}
    assert [folder for folder in folders if f">{folder.relative_to(ROOT)}<a " not in text] == []


def test_what_leads_nowhere_ends_the_build(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for name in ("website", "docs", "examples", *PACKAGES):
        shutil.copytree(ROOT / name, copy / name)
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    with (copy / "docs" / "hangs.md").open("a", encoding="utf-8") as page:
        page.write("\n[one](nowhere.md), [two](metrics.md#nowhere)\n")
    errors = copy / "timing_logger" / "errors.py"
    in_docstring = ":class:`Nowhere`, :func:`allreduce_instrumentation.nowhere`"
    errors.write_text(errors.read_text(encoding="utf-8").replace('"""Base', f'"""{in_docstring}. Base'))

    run = build(copy, tmp_path / "site")
    assert run.returncode != 0
    for nowhere in ("'nowhere.md'", "'#nowhere'", "Nowhere,", "allreduce_instrumentation.nowhere,"):
        assert nowhere in run.stderr


class _Read(HTMLParser):
    """What is of interest on a page: its links, and the names that it is the reference of."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag == "a":
            self.links.add(given.get("href") or "")
        if "doc-heading" in (given.get("class") or ""):
            self.names.add(given.get("id") or "")


def _read(page: Path) -> _Read:
    read = _Read()
    read.feed(page.read_text(encoding="utf-8"))
    return read


def _offered_by(file: Path) -> Iterator[str]:
    """Yield the names in ``__all__`` of a package, which need not be imported for that."""
    package = ".".join(file.parent.relative_to(ROOT).parts)
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            yield from (f"{package}.{name}" for name in ast.literal_eval(statement.value))
