"""Each promise is tested by day."""

from __future__ import annotations

import ast
import re

import pytest
from places import ROOT, TESTS

PAGE = (ROOT / "docs" / "promises.md").read_text()
FILES = [found for promise in PAGE.split("\n- ")[1:] if (found := re.findall(r"`(test_\w+\.py)`", promise))]
"""Those that each promise names."""


def quick_tests_of(source: str) -> list[str]:
    """Return the names of the tests of a file that are not marked as slow, as a whole or with the file."""
    tree = ast.parse(source)
    if any(ast.unparse(node).startswith("pytestmark = pytest.mark.slow") for node in tree.body):
        return []
    tests = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    return [
        test.name
        for test in tests
        if not any(ast.unparse(mark).startswith("pytest.mark.slow") for mark in test.decorator_list)
    ]


@pytest.mark.parametrize("names", FILES, ids=" ".join)
def test_one_of_the_files_that_a_promise_names_has_a_test_that_make_test_runs(names: list[str]) -> None:
    assert any(quick_tests_of(file.read_text()) for name in names for file in TESTS.rglob(name))


def test_a_test_that_is_slow_by_itself_or_with_its_file_is_none() -> None:
    slow = '@pytest.mark.slow("long")\ndef test_a(): pass\n'
    assert quick_tests_of(slow + "def test_b(): pass") == ["test_b"]
    assert quick_tests_of('pytestmark = pytest.mark.slow("long")\ndef test_b(): pass') == []
