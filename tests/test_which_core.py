"""Which core records, and that the slow one says so: there, in the sidecar, and on the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import run_python

import timing_logger
from timing_logger import TimingLogger, which_core
from timing_logger.errors import ConfigurationError

needs_native = pytest.mark.skipif(
    which_core.NAME != "native", reason="the native core was not built, or is off"
)


def core_with(
    value: str, program: str = "import timing_logger; print(timing_logger.recording_core)"
) -> subprocess.CompletedProcess[str]:
    return run_python(program, environment={"TIMING_LOGGER_CORE": value})


def test_the_python_core_can_be_asked_for() -> None:
    assert core_with("python").stdout == "python\n"


def test_an_unknown_core_is_refused_with_the_names_of_those_there_are() -> None:
    assert "TIMING_LOGGER_CORE must be 'python' or 'native', and is 'rust'" in core_with("rust").stderr


def test_a_native_core_that_was_not_built_is_refused_only_if_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, which_core.NATIVE, None)
    monkeypatch.delenv(which_core.VARIABLE, raising=False)
    assert which_core._chosen().name == "python"
    monkeypatch.setenv(which_core.VARIABLE, "native")
    with pytest.raises(ConfigurationError, match="the native core cannot be imported"):
        which_core._chosen()


@needs_native
def test_a_native_core_of_older_sources_is_not_used_and_the_package_says_so(tmp_path: Path) -> None:
    package = Path(timing_logger.__file__).parent
    shutil.copytree(package, tmp_path / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    source = tmp_path / package.name / "recording/cores/native/core.pyx"
    if not source.exists():
        pytest.skip("the package is installed without the sources of its core")
    asked = f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import timing_logger as it
        print(it.__file__, it.recording_core, it.recording_core_note)
    """
    of_copy = {"TIMING_LOGGER_CORE": ""}
    assert run_python(asked, environment=of_copy).stdout.split()[1] == "native"
    source.write_text(source.read_text() + "\n# changed\n")
    said = run_python(asked, environment=of_copy).stdout
    assert said.startswith(f"{tmp_path}/{package.name}/__init__.py python ")
    assert "its sources have changed since it was built" in said


def test_the_package_says_which_core_runs() -> None:
    assert timing_logger.recording_core == which_core.NAME


def without_the_native_core(program: str) -> str:
    """Return the output of a program that finds no native core, as where none could be built."""
    hidden = f"import sys; sys.modules[{which_core.NATIVE!r}] = None\n"
    run = run_python(hidden + program, environment={"TIMING_LOGGER_CORE": ""})
    assert run.returncode == 0, run.stderr
    return " ".join(run.stdout.split())


def test_the_version_says_that_no_native_core_is_there_and_the_way_out() -> None:
    said = without_the_native_core("from timing_logger.cli import main\nmain(['--version'])")
    assert "Records with the python core: a record takes several times as long" in said
    assert "Install a C compiler and the headers of Python" in said


def test_a_python_core_that_was_asked_for_is_said_to_be() -> None:
    program = "import timing_logger; print(timing_logger.recording_core_note)"
    assert "TIMING_LOGGER_CORE asks for it" in core_with("python", program).stdout


@needs_native
def test_of_the_native_core_there_is_nothing_to_note() -> None:
    assert timing_logger.recording_core_note == ""


def test_the_sidecar_names_the_core_and_the_way_out_of_the_slow_one(tmp_path: Path) -> None:
    without_the_native_core(f"import timing_logger; timing_logger.TimingLogger(0, {str(tmp_path)!r}).close()")
    sidecar = json.loads((tmp_path / "timing-rank0.meta.json").read_text())
    assert sidecar["core"] == "python"
    assert "Install a C compiler" in sidecar["core_note"]


@needs_native
def test_the_sidecar_names_the_native_core(tmp_path: Path) -> None:
    TimingLogger(0, tmp_path).close()
    sidecar = json.loads((tmp_path / "timing-rank0.meta.json").read_text())
    assert (sidecar["core"], sidecar["core_note"]) == ("native", "")
