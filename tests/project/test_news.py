"""The files of ``changelog.d``: what users notice of changes that no release has yet; and how one is made."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from limits import PROCESS_S
from places import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which pytest brings along

NEWS = ROOT / "changelog.d"
SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "towncrier"
]
KINDS = [kind["directory"] for kind in SETTINGS["type"]]


def fragments() -> list[Path]:
    return [path for path in sorted(NEWS.iterdir()) if path != ROOT / SETTINGS["template"]]


def test_the_name_of_each_file_says_what_changed_and_how() -> None:
    wrong = [f.name for f in fragments() if not re.fullmatch(rf"[a-z0-9-]+\.({'|'.join(KINDS)})\.md", f.name)]
    assert wrong == []


def test_each_file_says_something_and_leaves_the_bullet_to_the_changelog() -> None:
    wrong = [f.name for f in fragments() if not re.match(r"[^\s\-*#]", f.read_text(encoding="utf-8"))]
    assert wrong == []


def test_the_changelog_has_the_line_below_which_a_release_is_put() -> None:
    changelog = (ROOT / SETTINGS["filename"]).read_text(encoding="utf-8")
    assert re.search(rf"^## \[Unreleased\]\n\n{SETTINGS['start_string']}", changelog, re.MULTILINE)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one piece of news of each kind, the last kind first, and a short changelog."""
    for name in ("pyproject.toml", SETTINGS["template"]):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for kind in reversed(KINDS):
        (tmp_path / "changelog.d" / f"a-thing.{kind}.md").write_text(f"A thing was {kind}:\nat last.\n")
    head = f"# Changelog\n\n## [Unreleased]\n\n{SETTINGS['start_string']}\n"
    (tmp_path / "CHANGELOG.md").write_text(f"{head}## [0.2.0] - 2026-11-23\n\n### Added\n\n- All.\n")
    return tmp_path


def built(checkout: Path, version: str, *options: str) -> str:
    pytest.importorskip("towncrier", reason="towncrier is not installed (pip install '.[dev]')")
    command = [
        sys.executable,
        "-m",
        "towncrier",
        "build",
        "--yes",
        *options,
        "--version",
        version,
        "--date",
        "2026-12-01",
    ]
    run = subprocess.run(
        command, cwd=checkout, capture_output=True, text=True, timeout=PROCESS_S, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def released(checkout: Path, version: str) -> str:
    built(checkout, version)
    return (checkout / "CHANGELOG.md").read_text()


@pytest.mark.slow("it starts towncrier, whose work it is; that each file of news can be sorted is quick")
def test_a_release_sorts_the_news_by_kind_and_uses_them_up(checkout: Path) -> None:
    of_each = [f"### {kind.capitalize()}\n\n- A thing was {kind}:\n  at last.\n\n" for kind in KINDS]
    changelog = released(checkout, "0.3.0")
    release = changelog.split(SETTINGS["start_string"])[1].split("## [0.2.0]")[0]
    assert release == "\n## [0.3.0] - 2026-12-01\n\n" + "".join(of_each)
    assert [path.name for path in (checkout / "changelog.d").iterdir()] == ["template.jinja"]


@pytest.mark.slow("two more releases; one is made above")
def test_the_next_release_stands_above_the_last(checkout: Path) -> None:
    released(checkout, "0.3.0")
    (checkout / "changelog.d" / "more.fixed.md").write_text("More.\n")
    headings = re.findall(r"^## \[(.*?)\]", released(checkout, "0.4.0"), re.MULTILINE)
    assert headings == ["Unreleased", "0.4.0", "0.3.0", "0.2.0"]


@pytest.mark.slow("towncrier itself writes drafts; a release is made above")
def test_a_draft_of_a_release_without_news_has_its_title_and_writes_nothing(checkout: Path) -> None:
    for news in (checkout / "changelog.d").glob("*.md"):
        news.unlink()
    before = (checkout / "CHANGELOG.md").read_text()
    assert "## [0.3.0] - 2026-12-01" in built(checkout, "0.3.0", "--draft")
    assert (checkout / "CHANGELOG.md").read_text() == before


def test_the_kinds_of_news_are_those_of_the_changelog() -> None:
    assert KINDS == ["added", "changed", "deprecated", "removed", "fixed", "security"]
