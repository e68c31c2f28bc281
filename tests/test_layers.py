"""Imports go one way: the halves share the schema only, and nothing heavy loads at import."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from processes import run_python

ROOT = Path(__file__).parent.parent
PACKAGES = ["timing_logger", "allreduce_instrumentation"]


def test_imports_keep_the_contracts() -> None:
    """Those of import-linter, in ``pyproject.toml``."""
    pytest.importorskip("importlinter", reason="import-linter is not installed (pip install '.[test]')")
    program = "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


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


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_can_be_had(package: str) -> None:
    run = run_python(f"import {package}; [getattr({package}, name) for name in {package}.__all__]")
    assert run.returncode == 0, run.stderr


MOVED = {
    "timing_logger.converting": ("convert", "timing_logger"),
    "timing_logger.global_logger": ("get_timing_logger", "timing_logger"),
    "timing_logger.logger": ("TimingLogger", "timing_logger"),
    "timing_logger.sampling": ("StepPolicy", "timing_logger.recording.sampling"),
    "timing_logger.watching": ("Watcher", "timing_logger.engine.live"),
}


@pytest.mark.parametrize("module", MOVED)
def test_what_had_another_place_in_the_first_version_is_found_there_with_a_warning_of_the_new(
    module: str,
) -> None:
    name, home = MOVED[module]
    with pytest.warns(
        DeprecationWarning, match=f"^{module}.{name} has moved: from {home} import {name}$"
    ) as said:
        exec(f"from {module} import {name} as found", its := {})
    assert its["found"] is getattr(import_module(home), name)
    assert [warning.filename for warning in said] == ["<string>"]  # whoever imported it


@pytest.mark.parametrize("module", MOVED)
def test_a_module_of_the_first_version_has_no_other_names(module: str) -> None:
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec(f"from {module} import nothing")


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
