"""What GitHub and citing tools read of the repository can be read, and all that it names exists."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from markdown_pages import anchors_of, links_of
from places import ROOT

from timing_logger.cli.parser import build_parser

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which pytest brings along

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (pip install '.[test]')")

GITHUB = ROOT / ".github"
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
FIRST_TASKS = ROOT / "docs" / "first-tasks.md"
PAGES = [ROOT / "SECURITY.md", ROOT / "CODE_OF_CONDUCT.md", GITHUB / "pull_request_template.md"]
TEXTS = [*sorted(GITHUB.rglob("*.*ml")), *PAGES, ROOT / "CITATION.cff"]
FROM_AN_ISSUE = "../blob/HEAD/"  # as GitHub resolves it on the page of a new issue and of one that there is


def parsed(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def named_in_code(path: Path) -> list[str]:
    return re.findall(r"`([^`\n]+)`", path.read_text(encoding="utf-8"))


def stated(fact: str) -> Any:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][fact]


def fields_of(form: Path) -> Iterator[dict[str, Any]]:
    yield from parsed(form)["body"]


def test_the_workflow_runs_what_must_pass_before_a_change_lands() -> None:
    workflow = parsed(GITHUB / "workflows" / "ci.yml")
    (job,) = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert set(workflow[True]) == {"push", "pull_request"}  # YAML 1.1 reads the key "on" as true


def test_the_workflow_may_do_no_more_than_read_and_ends() -> None:
    workflow = parsed(GITHUB / "workflows" / "ci.yml")
    (job,) = workflow["jobs"].values()
    assert workflow["permissions"] == {"contents": "read"}
    assert job["timeout-minutes"] <= 120


def test_there_is_a_form_for_each_kind_of_issue() -> None:
    assert {parsed(form)["name"] for form in FORMS} == {"A bug", "I found a slow rank", "A question"}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_a_form_has_what_github_wants_of_it(form: Path) -> None:
    assert {"name", "description", "body"} <= set(parsed(form))
    for field in fields_of(form):
        wanted = {"markdown": "value", "dropdown": "options"}.get(field["type"], "label")
        assert field["type"] in {"markdown", "input", "textarea", "dropdown"}
        assert field["attributes"][wanted]
    asked = [field["id"] for field in fields_of(form) if field["type"] != "markdown"]
    assert asked
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_the_options_of_a_form_are_texts(form: Path) -> None:
    for field in fields_of(form):  # an unquoted No is false in YAML, and GitHub refuses the form
        assert all(isinstance(option, str) for option in field["attributes"].get("options", []))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_the_links_of_a_form_lead_to_files_of_the_repository(form: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", form.read_text(encoding="utf-8")):
        assert target.startswith(FROM_AN_ISSUE), target
        assert (ROOT / target.removeprefix(FROM_AN_ISSUE)).is_file(), target


def test_each_first_task_says_what_where_and_when_it_is_done() -> None:
    tasks = FIRST_TASKS.read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(tasks) >= 6
    for task in tasks:
        assert re.findall(r"^- \*\*(.*)\*\*: ", task, re.MULTILINE) == ["What", "Where", "Done when"], task


def test_each_file_that_a_first_task_names_is_there() -> None:
    named = [code for code in named_in_code(FIRST_TASKS) if re.fullmatch(r"[\w./-]+/[\w.-]+\.\w+", code)]
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for link in links_of(page):
        if link.is_relative:
            assert link.file.is_file(), link.target
            assert not link.anchor or link.anchor in anchors_of(link.file), link.target


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_commands_that_are_named_exist(path: Path) -> None:
    for code in named_in_code(path):
        command, *arguments = shlex.split(code)
        if command == "make":
            assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), code
        elif command == "timing-logger" and arguments != ["--version"]:
            build_parser().parse_args(arguments)  # exits if there is no such command or option
        elif command.startswith(".ci/") or command.endswith(".md"):
            assert (ROOT / command).is_file(), code


def test_the_citation_says_what_the_package_says_of_itself_and_leaves_the_version_to_it() -> None:
    citation = parsed(ROOT / "CITATION.cff")
    assert citation["title"] == stated("name")
    assert citation["abstract"] == stated("description")
    assert citation["license"] == stated("license")
    assert citation["authors"] == stated("authors")
    assert citation["keywords"] == stated("keywords")
    assert "version" not in citation


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_no_address_is_invented(path: Path) -> None:
    addresses = re.findall(r"https?://[^/\s)]+|\b[\w.+-]+@[\w-]+\.\w+", path.read_text(encoding="utf-8"))
    assert set(addresses) <= {"https://www.contributor-covenant.org"}
