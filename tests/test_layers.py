"""Imports go one way: the halves share the schema only, and nothing heavy loads at import."""

from __future__ import annotations

import subprocess
import sys
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


def test_what_had_another_place_in_the_first_version_is_still_found_there() -> None:
    run = run_python(
        """
        import importlib
        import sys
        from timing_logger import TimingLogger
        from timing_logger.cli import main
        from timing_logger.converting import convert
        from timing_logger.global_logger import get_timing_logger
        from timing_logger.logger import TimingLogger as by_its_old_name
        from timing_logger.reading import read_timings
        from timing_logger.sampling import StepPolicy
        from timing_logger.watching import Watcher
        assert by_its_old_name is TimingLogger
        assert StepPolicy.__module__ == "timing_logger.recording.sampling"
        module = sys.modules["timing_logger.sampling"]
        assert module.__spec__.name == StepPolicy.__module__
        assert importlib.reload(module) is module
        """
    )
    assert run.returncode == 0, run.stderr
