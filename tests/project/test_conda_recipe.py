"""``conda/recipe.yaml`` says of the package what ``pyproject.toml`` says."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from places import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which pytest brings along

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (pip install '.[test]')")

STATED: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = STATED["project"]
RECIPE: dict[str, Any] = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))


def as_conda_writes_it(requirements: list[str]) -> list[str]:
    """Return requirements with a space between name and version, in the order of their names."""
    return sorted(re.sub(r"(?<=[\w\]])(?=[<>=!~])", " ", one, count=1) for one in requirements)


def test_it_needs_what_the_package_needs() -> None:
    assert sorted(RECIPE["requirements"]["run"]) == as_conda_writes_it([*PROJECT["dependencies"], "python"])


def test_it_is_built_with_what_pip_builds_with() -> None:
    wanted = as_conda_writes_it([*STATED["build-system"]["requires"], "python", "pip"])
    assert sorted(RECIPE["requirements"]["host"]) == wanted


def test_it_is_built_for_the_pythons_that_the_package_supports() -> None:
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert f'match(python, "<{oldest}")' in RECIPE["build"]["skip"]


def test_it_has_the_name_the_version_and_the_licence_of_the_package() -> None:
    assert RECIPE["package"]["name"] == PROJECT["name"]
    assert RECIPE["context"]["version"] == PROJECT["version"]
    assert RECIPE["about"]["summary"] == PROJECT["description"]
    assert RECIPE["about"]["license"] == PROJECT["license"]
    assert [RECIPE["about"]["license_file"]] == PROJECT["license-files"]


def test_it_installs_the_same_programs() -> None:
    programs = [f"{name} = {function}" for name, function in PROJECT["scripts"].items()]
    assert RECIPE["build"]["python"]["entry_points"] == programs


def test_the_files_that_it_tests_with_are_there() -> None:
    files = [name for test in RECIPE["tests"] for name in test.get("files", {}).get("source", [])]
    assert files
    assert [name for name in files if not (ROOT / name).is_file()] == []
    assert all(
        any(name in line for test in RECIPE["tests"] for line in test.get("script", [])) for name in files
    )
