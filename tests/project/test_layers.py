"""Imports go one way: the halves share the schema only, and nothing heavy loads at import."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from limits import PROCESS_S
from places import ROOT
from processes import run_python, run_warm
from slow import slow

PACKAGES = ["timing_logger", "allreduce_instrumentation"]
OFFERED = [*PACKAGES, "timing_logger.compat"]
LAZY = ["timing_logger.analysis", "timing_logger.report"]
IMPORT_BY_STRING = ("import_module", "__import__")
BY_NAME = {
    "allreduce_instrumentation/__init__.py": "what it offers loads when it is asked for",
    "allreduce_instrumentation/nccl/__init__.py": "likewise",
    "timing_logger/__init__.py": "likewise",
    "timing_logger/analysis/__init__.py": "likewise, with the report that shows a verdict in notebooks",
    "timing_logger/process/which_core.py": "the native core may not be built",
    "timing_logger/recording/lifecycle.py": "a module of Python has another name in each version",
    "timing_logger/report/__init__.py": "what it offers loads when it is asked for",
}
"""The files that import what they do not name as a literal, or what is ours, with the reason."""


@pytest.mark.slow("make lint asks the same of import-linter")
def test_imports_keep_the_contracts() -> None:
    """Those of import-linter, in ``pyproject.toml``."""
    pytest.importorskip("importlinter", reason="import-linter is not installed (pip install '.[test]')")
    program = "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PROCESS_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_nothing_of_ours_is_imported_by_a_string_behind_the_contracts() -> None:
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    assert {str(file.relative_to(ROOT)) for file in files if any(hidden_imports(file))} == BY_NAME.keys()


def hidden_imports(file: Path) -> Iterator[ast.Call]:
    """Yield the imports by a string, other than those of other libraries by their names."""
    text = file.read_text(encoding="utf-8")
    if not any(name in text for name in IMPORT_BY_STRING):
        return
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    for call in calls:
        if ast.unparse(call.func).split(".")[-1] in IMPORT_BY_STRING:
            name = call.args[0].value if isinstance(call.args[0], ast.Constant) else PACKAGES[0]
            if str(name).split(".")[0] in ("", *PACKAGES):
                yield call


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_brings_nothing_heavy(package: str) -> None:
    run = run_python(
        f"""
        import sys
        import {package}
        heavy = {{"torch", "mpi4py", "numpy", "pandas", "narwhals", "rich", "plotly", "matplotlib"}}
        print(sorted(heavy & set(sys.modules)))
        """
    )
    assert run.stdout == "[]\n", run.stderr


def test_results_are_read_without_what_computes_them() -> None:
    files = (ROOT / "timing_logger" / "results").glob("[!_]*.py")
    modules = ", ".join(f"timing_logger.results.{file.stem}" for file in files)
    run = run_python(
        f"""
        import sys
        import {modules}
        above = {{"numpy", "pandas", "timing_logger.analysis", "timing_logger.words"}}
        print(sorted(above & set(sys.modules)))
        """
    )
    assert run.stdout == "[]\n", run.stderr


def test_every_public_name_can_be_had_without_a_warning() -> None:
    had = "\n".join(f"import {one}; [getattr({one}, name) for name in {one}.__all__]" for one in OFFERED)
    run = run_warm(f"import warnings; warnings.simplefilter('error')\n{had}")
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_lists_what_the_package_itself_offers(package: str) -> None:
    page = (ROOT / "website" / "pages" / "api" / "index.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| `{package}` \| [^|]+ \| (.*) \|$", page, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(import_module(package).__all__)


@pytest.mark.parametrize("package", LAZY)
def test_what_is_imported_on_first_access_stands_in_all_three_lists(package: str) -> None:
    face = import_module(package)
    (block, *_) = [one for one in ast.parse(inspect.getsource(face)).body if isinstance(one, ast.If)]
    typed = {name.name for one in block.body if isinstance(one, ast.ImportFrom) for name in one.names}
    lists = {"__all__": {*face.__all__}, "_NAMES_OF": {*face._HOME}, "if TYPE_CHECKING": typed}
    names = set.union(*lists.values())
    lacking = {where: names - listed for where, listed in lists.items() if names - listed}
    assert lacking == {}, f"{package}/__init__.py lacks these in one of its lists"
    assert [name for name in face.__all__ if not hasattr(face, name)] == []


def test_an_error_can_be_caught_by_its_name_in_the_package() -> None:
    program = "import timing_logger\ntry: timing_logger.TimingLogger(-1)\n"
    run = run_python(program + "except timing_logger.errors.ConfigurationError: print('caught')")
    assert run.stdout == "caught\n", run.stderr


@pytest.mark.parametrize(
    "module",
    [slow(module, "that each name can be had without a warning is quick") for module in OFFERED],
)
def test_importing_what_is_offered_now_warns_of_nothing(module: str) -> None:
    run = run_python(f"import warnings; warnings.simplefilter('error'); from {module} import *")
    assert run.returncode == 0, run.stderr


def test_nothing_is_put_into_the_way_of_the_programs_own_imports() -> None:
    run = run_python(
        """
        import sys
        finders = list(sys.meta_path), list(sys.path_hooks)
        import allreduce_instrumentation, timing_logger
        print((sys.meta_path, sys.path_hooks) == finders)
        """
    )
    assert run.stdout == "True\n", run.stderr
