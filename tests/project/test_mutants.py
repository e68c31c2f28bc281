"""``make mutants``: the same seed breaks the same lines, and what no test holds survives."""

from __future__ import annotations

import ast
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from limits import PROCESS_S
from mutants.__main__ import PACKAGES, _files, report
from mutants.copies import Copy, mirroring, nearest
from mutants.mutations import Mutant, drawn, mutants_of
from places import ROOT, TESTS

FILE = Path("timing_logger/few.py")
SOURCE = b"""\
'''Few lines, of 10 at most.'''
LIMIT: "at least 3" = 0.1

def f(x: "1 < 2", y=5) -> "not 3":
    if 0 <= x < y:
        log.warning("more than %d", 7)
        x -= 2
    return x is not None

class A:
    def __init__(self, b):
        self.b = b + 1

    def __repr__(self):
        return f"{self.b + 1}" + str(2)
"""

TWO_LINES = "LIMIT = 3\nUNTESTED = 8\n"
ITS_TEST = "from two import LIMIT\n\ndef test_limit(): assert LIMIT == 3\n"
LAST_WORDS = "1 of 2 mutants were noticed, 0 of them by slow tests alone; 1 survived"
BY_ITS_TEST = "noticed by tests/test_two.py::test_limit: two/__init__.py:1: "


def found(kind: str) -> list[str]:
    return [
        mutant.said(SOURCE).partition(", ")[2] for mutant in mutants_of(FILE, SOURCE) if mutant.kind == kind
    ]


def test_each_comparison_gets_the_operators_that_are_nearest() -> None:
    assert found("comparison") == [
        "`if 0 <= x < y:` to `if 0 < x < y:`",
        "`if 0 <= x < y:` to `if 0 > x < y:`",
        "`if 0 <= x < y:` to `if 0 <= x <= y:`",
        "`if 0 <= x < y:` to `if 0 <= x >= y:`",
        "`return x is not None` to `return x is None`",
    ]


def test_numbers_are_doubled_and_whole_ones_are_one_too_high_and_too_low() -> None:
    assert '`LIMIT: "at least 3" = 0.1` to `LIMIT: "at least 3" = 0.2`' in found("number")
    assert [change for change in found("off by one") if "x -= 2" in change] == [
        "`x -= 2` to `x -= (1)`",
        "`x -= 2` to `x -= (3)`",
    ]


def test_signs_change_conditions_are_negated_and_statements_dropped() -> None:
    assert found("sign") == ["`x -= 2` to `x += 2`", "`self.b = b + 1` to `self.b = b - 1`"]
    assert found("condition") == ["`if 0 <= x < y:` to `if not (0 <= x < y):`"]
    assert found("dropped") == ["`x -= 2` to `pass`"]


def test_annotations_docstrings_what_is_logged_and_representations_are_left_alone() -> None:
    lines = Counter(mutant.line for mutant in mutants_of(FILE, SOURCE))
    assert set(lines) == {2, 4, 5, 7, 8, 12}


def test_each_mutant_of_a_module_is_another_program() -> None:
    source = (ROOT / "timing_logger" / "schema" / "cells.py").read_bytes()
    mutants = mutants_of(FILE, source)[::14]
    assert len({ast.dump(ast.parse(mutant.applied(source))) for mutant in mutants}) == len(mutants) > 10


def of_lines(count: int) -> list[Mutant]:
    return [mutant for line in range(count) for mutant in mutants_of(Path(f"{line}.py"), b"a = 1 + 2")]


def test_one_seed_draws_the_same_mutants_and_another_one_others() -> None:
    mutants = of_lines(200)
    assert list(drawn(mutants, 10, 7)) == list(drawn(mutants, 10, 7)) != list(drawn(mutants, 10, 8))


def test_mutants_are_of_lines_that_are_evenly_apart() -> None:
    lines = [int(mutant.file.stem) for mutant in drawn(of_lines(200), 10, 7)]
    assert [line // 20 for line in lines] == list(range(10))


def test_of_few_lines_each_has_one_mutant() -> None:
    assert len(list(drawn(of_lines(3), 10, 7))) == 3


@pytest.mark.parametrize(
    ("module", "first", "folders"),
    [
        (
            "timing_logger/analysis/collectives/waits.py",
            "test_waits",
            ["tests/analysis/collectives", "tests/analysis"],
        ),
        ("timing_logger/schema/record.py", "test_record", ["tests/schema", "tests"]),
        ("timing_logger/compat/region_timers.py", "test_region_timers", ["tests/compat", "tests"]),
    ],
)
def test_the_tests_of_a_module_are_those_of_its_folder_with_its_own_first_and_of_the_one_around_it(
    module: str, first: str, folders: list[str]
) -> None:
    files = mirroring(Path(module), TESTS)
    assert Path(files[0]).name.startswith(first)
    assert list(dict.fromkeys(str(Path(file).parent) for file in files)) == folders


def test_what_no_quick_test_notices_is_tried_on_slow_tests_of_its_name_and_of_whole_answers() -> None:
    assert nearest(Path("timing_logger/analysis/collectives/waits.py"), TESTS) == [
        *sorted(
            str(file.relative_to(ROOT)) for file in (TESTS / "analysis/collectives").glob("test_waits*.py")
        ),
        "tests/analysis/test_analysis_of_known_runs.py",
    ]


def two_lines(root: Path, test: str) -> Path:
    """Write a repository with a package of two lines, and its test."""
    for name, text in {"two/__init__.py": TWO_LINES, "tests/test_two.py": test}.items():
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q", root], check=True, timeout=PROCESS_S)
    return root


@pytest.fixture
def without_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """To load them takes longer than all else here."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_timeout")


@pytest.mark.usefixtures("without_plugins")
@pytest.mark.slow("it starts pytest several times; which mutants there are, and whose tests run, is quick")
def test_what_a_test_holds_is_noticed_what_none_holds_survives_and_the_checkout_stays(tmp_path: Path) -> None:
    root = two_lines(tmp_path, ITS_TEST)
    first, *lines, last = report(root, ["two"], seed=1, count=2)
    noticed, survived = sorted(lines)
    assert (first, last) == ("seed 1", LAST_WORDS)
    assert noticed.startswith(BY_ITS_TEST)
    assert survived.startswith("survived: two/__init__.py:2: ")
    assert (root / "two" / "__init__.py").read_text() == TWO_LINES


def test_folders_and_files_can_be_named_whose_lines_alone_are_broken(tmp_path: Path) -> None:
    for name in ("two/a/b.py", "two/c.py", "two/d.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    chosen = [str(file.relative_to(tmp_path)) for file in _files(tmp_path, ["two"], ["two/a", "two/d.py"])]
    assert chosen == ["two/a/b.py", "two/d.py"]


TWO_TESTS = """\
import time
from two import small

def test_of_a_large_number(): time.sleep(0.2); assert not small(9)
def test_of_a_small_number(): assert small(2)
def test_of_nothing(): pass
def test_that_fails(): assert small(0) == 0
"""


@pytest.mark.usefixtures("without_plugins")
@pytest.mark.slow("it starts pytest under coverage.py")
def test_the_tests_of_a_line_are_those_that_reach_it_and_pass_the_quickest_first(tmp_path: Path) -> None:
    pytest.importorskip("coverage", reason="coverage.py is not installed (make .venv/installed-dev)")
    root = two_lines(tmp_path / "repository", TWO_TESTS)
    (root / "two/__init__.py").write_text(
        "def small(n):\n    if n < 5:\n        return True\n    return False\n"
    )
    learned = Copy(root, tmp_path / "copy", ["two"]).learned(Path("tests"))
    of_small, of_large = (f"tests/test_two.py::test_of_a_{size}_number" for size in ("small", "large"))
    by_line = {line: learned.tests_of(Path("two/__init__.py"), line) for line in (1, 2, 3, 4)}
    assert by_line == {1: [of_small, of_large], 2: [of_small, of_large], 3: [of_small], 4: [of_large]}


@pytest.mark.usefixtures("without_plugins")
@pytest.mark.slow("it starts pytest a dozen times")
def test_a_test_that_fails_without_the_mutant_too_is_no_witness(tmp_path: Path) -> None:
    root = two_lines(tmp_path, "def test_of_something_else(): assert False\n" + ITS_TEST)
    _, line, _ = report(root, ["two"], seed=1, count=1)
    assert line.startswith((BY_ITS_TEST, "survived"))
    assert "1 deselected" in line


@pytest.mark.slow("it makes a copy and starts Python in it, as each use does")
def test_a_copy_in_which_the_packages_of_the_checkout_would_be_imported_is_refused(tmp_path: Path) -> None:
    root = two_lines(tmp_path / "repository", ITS_TEST)
    with pytest.raises(AssertionError, match="timing_logger would be imported from"):
        Copy(root, tmp_path / "copy", [*PACKAGES, "two"])
