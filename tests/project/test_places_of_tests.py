"""Tests lie in the folder of the package that they test, in files that are named after its modules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from places import ROOT, TESTS

PACKAGES = ("timing_logger", "allreduce_instrumentation")
ELSEWHERE = ("project", "faults", "gpu")
"""Folders for what no module does alone: the repository itself, the promises, what only a real GPU shows."""

EMPTY = {"__init__.py", "__pycache__"}

EVERYWHERE = sorted(TESTS.rglob("test_*.py"))
MIRRORING = [file for file in EVERYWHERE if file.relative_to(TESTS).parts[0] not in ELSEWHERE]


def packages_of(folder: Path) -> list[Path]:
    """Return the packages whose tests lie in this folder: of ``tests`` itself, the outermost ones."""
    places = [ROOT / package / folder.relative_to(TESTS) for package in PACKAGES]
    return [place for place in places if (place / "__init__.py").is_file()]


def names_in(package: Path, folder: Path) -> Iterator[str]:
    """Yield what test files of this folder may be named after.

    These are the package, its modules, and those of its packages whose tests have no folder of their own.
    """
    yield package.name
    for entry in package.iterdir():
        if entry.suffix in (".py", ".pyx"):
            yield entry.stem.strip("_")
        elif (entry / "__init__.py").is_file() and not (folder / entry.name).is_dir():
            yield from names_in(entry, folder / entry.name)


def is_named_after(file: Path, name: str) -> bool:
    return f"{file.stem}_".startswith(f"test_{name}_")


def test_each_folder_of_tests_is_named_like_a_package() -> None:
    assert {file.parent for file in MIRRORING if not packages_of(file.parent)} == set()


def test_each_test_file_is_named_after_a_module_or_package_of_its_folder() -> None:
    nameless = [
        str(file.relative_to(TESTS))
        for file in MIRRORING
        for names in [{name for each in packages_of(file.parent) for name in names_in(each, file.parent)}]
        if not any(is_named_after(file, name) for name in names)
    ]
    assert nameless == []


def test_no_two_test_files_have_one_name_as_pytest_imports_them_without_their_folders() -> None:
    counts = Counter(file.name for file in EVERYWHERE)
    assert {name for name, count in counts.items() if count > 1} == set()


def test_folders_of_tests_are_no_packages() -> None:
    assert [file.parent for file in EVERYWHERE if (file.parent / "__init__.py").exists()] == []


def test_scripts_that_name_test_files_name_such_as_are_there() -> None:
    scripts = [TESTS / "sanitize" / "run.sh", TESTS / "matrix" / "environments.py"]
    named = {name for script in scripts for name in re.findall(r"[\w/]*\btest_\w+\.py", script.read_text())}
    assert len(named) > 40
    assert {name for name in named if not (TESTS / name).is_file()} == set()


def test_no_package_is_without_a_module() -> None:
    inits = [file for package in PACKAGES for file in (ROOT / package).rglob("__init__.py")]
    assert [init for init in inits if {entry.name for entry in init.parent.iterdir()} <= EMPTY] == []
