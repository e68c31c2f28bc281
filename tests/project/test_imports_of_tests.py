"""What tests, benchmarks and examples import of the project exists, also where it is imported as text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from places import ROOT, TESTS

PACKAGES = ("timing_logger", "allreduce_instrumentation")
FOLDERS = ("tests", "benchmarks", "examples", "website")
FILES = sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))
OF_TESTS = {file.stem: file for file in sorted(TESTS.rglob("*.py")) if file.stem != "__init__"}
COMPILED = {"timing_logger.recording.cores.native.core"}


def file_of(module: str) -> Path | None:
    """Return the file of a module of the packages or of the tests; None of any other."""
    if module.split(".")[0] not in PACKAGES:
        return OF_TESTS.get(module)
    place = ROOT.joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


@cache
def names_in(file: Path) -> set[str]:
    """Return all names that a module binds, and the texts in it: a public face has names as text."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def imports(tree: ast.AST) -> Iterator[ast.ImportFrom]:
    """Yield the imports of names in a program, and in the programs that it has as text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "import " in node.value:
            try:
                yield from imports(ast.parse(node.value))
            except (SyntaxError, ValueError):
                continue


def missing(node: ast.ImportFrom) -> Iterator[str]:
    assert node.module is not None
    file = file_of(node.module)
    if file is None or node.module in COMPILED:
        return
    if not file.is_file():
        yield node.module
        return
    for name in node.names:
        inner = file_of(f"{node.module}.{name.name}")
        is_module = inner is not None and inner.is_file()
        if name.name != "*" and not is_module and name.name not in names_in(file):
            yield f"{node.module}.{name.name}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_whatever_is_imported_of_the_project_exists(folder: str) -> None:
    files = [file for file in FILES if file.is_relative_to(ROOT / folder)]
    found = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in files
        for node in imports(ast.parse(file.read_text(encoding="utf-8")))
        for name in missing(node)
    ]
    assert found == []
