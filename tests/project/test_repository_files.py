"""What GitHub and citing tools read of the repository can be read, and all that it names exists."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from limits import PROCESS_S
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


WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
RELEASE = GITHUB / "workflows" / "release.yml"


def steps_of(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in parsed(workflow)["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_each_file_that_a_workflow_runs_is_there(workflow: Path) -> None:
    commands = [step["run"] for step in steps_of(workflow) if "run" in step]
    words = [word for command in commands for word in re.findall(r"[\w./-]+", command)]
    named = [word for word in words if re.fullmatch(r"(\.ci|tests|timing_logger)/[\w./]+|[\w-]+\.toml", word)]
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {target for command in commands for target in re.findall(r"\bmake ([\w-]+)", command)} <= {
        *targets
    }


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_each_job_of_a_workflow_may_only_read_and_ends(workflow: Path) -> None:
    content = parsed(workflow)
    assert content["permissions"] == {"contents": "read"}
    for name, job in content["jobs"].items():
        assert job["timeout-minutes"] <= 120
        assert job.get("permissions", {}) == ({"id-token": "write"} if name == "publish" else {})
        assert set(job.get("needs", [])) <= set(content["jobs"])


def test_a_tag_is_published_once_all_that_is_published_was_made_and_checked() -> None:
    workflow = parsed(RELEASE)
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    publish = workflow["jobs"]["publish"]
    assert set(publish["needs"]) == set(workflow["jobs"]) - {"publish"}
    *_, check, last = publish["steps"]
    assert check["run"] == "pipx run twine check --strict dist/*"
    assert last == {
        "uses": "pypa/gh-action-pypi-publish@release/v1"
    }  # by the token of the job, with no password
    assert [step for step in steps_of(RELEASE) if "secrets." in str(step)] == []


def test_a_release_is_refused_whose_tag_is_not_the_version(tmp_path: Path) -> None:
    (command,) = [step["run"] for step in steps_of(RELEASE) if "GITHUB_REF_NAME" in step.get("run", "")]
    (tmp_path / "python").symlink_to(sys.executable)
    for tag, code in ((f"v{stated('version')}", 0), ("v0.0.1", 1)):
        if sys.version_info >= (3, 11):  # the workflow's Python has tomllib
            environment = {**os.environ, "GITHUB_REF_NAME": tag, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
            run = subprocess.run(
                ["bash", "-ec", command], cwd=ROOT, env=environment, timeout=PROCESS_S, check=False
            )
            assert run.returncode == code, tag


def test_wheels_are_built_for_each_python_that_is_tried_and_checked_by_a_file_that_is_there() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["cibuildwheel"]
    oldest = int(stated("requires-python").removeprefix(">=3."))
    built = [int(minor) for minor in re.findall(r"cp3(\d+)-", settings["build"])]
    assert built == list(range(oldest, max(built) + 1))
    assert (ROOT / settings["test-command"].partition("{project}/")[2]).is_file()


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
