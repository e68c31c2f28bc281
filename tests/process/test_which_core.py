"""Which core records, and that the slow one says so: there, in the sidecar, and on the command line."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from processes import run_python, run_warm

import timing_logger
from timing_logger import TimingLogger
from timing_logger.errors import ConfigurationError
from timing_logger.process import which_core

needs_native = pytest.mark.skipif(
    which_core.NAME != "native", reason="the native core was not built, or is off"
)


def test_the_python_core_can_be_asked_for_and_is_said_to_be() -> None:
    program = "import timing_logger as it; print(it.recording_core, it.recording_core_note)"
    said = run_warm(program, environment={"TIMING_LOGGER_CORE": "python"}).stdout
    assert said.startswith("python ")
    assert "TIMING_LOGGER_CORE asks for it" in said


def test_an_unknown_core_is_refused_with_the_names_of_those_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(which_core.VARIABLE, "rust")
    with pytest.raises(
        ConfigurationError, match="TIMING_LOGGER_CORE must be 'python' or 'native', and is 'rust'"
    ):
        which_core._chosen()


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
def test_a_native_core_of_other_sources_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(which_core.VARIABLE, raising=False)
    assert which_core._chosen() == ("native", "")
    monkeypatch.setattr(which_core, "checksum_of_sources", lambda: "of others")
    name, reason = which_core._chosen()
    assert name == "python"
    assert "its sources have changed since it was built" in reason


@needs_native
@pytest.mark.slow("copies the package; that a core of other sources is not chosen is quick")
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


@pytest.fixture(scope="module")
def without_the_native_core(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the version says, and where a logger wrote, in a process that finds no native core.

    As where none could be built.
    """
    folder = tmp_path_factory.mktemp("logs")
    program = f"""
        import sys
        sys.modules[{which_core.NATIVE!r}] = None
        from timing_logger import TimingLogger
        from timing_logger.cli import main
        TimingLogger(0, {str(folder)!r}).close()
        main(["--version"])
    """
    run = run_warm(program, environment={"TIMING_LOGGER_CORE": ""})
    assert run.returncode == 0, run.stderr
    return " ".join(run.stdout.split()), folder


def test_the_version_says_that_no_native_core_is_there_and_the_way_out(
    without_the_native_core: tuple[str, Path],
) -> None:
    said, _ = without_the_native_core
    assert "Records with the python core: a record takes several times as long" in said
    assert "Install a C compiler and the headers of Python" in said


@needs_native
def test_of_the_native_core_there_is_nothing_to_note() -> None:
    assert timing_logger.recording_core_note == ""


def test_the_sidecar_names_the_core_and_the_way_out_of_the_slow_one(
    without_the_native_core: tuple[str, Path],
) -> None:
    _, folder = without_the_native_core
    sidecar = json.loads((folder / "timing-rank0.meta.json").read_text())
    assert sidecar["core"] == "python"
    assert "Install a C compiler" in sidecar["core_note"]


@needs_native
def test_the_sidecar_names_the_native_core(tmp_path: Path) -> None:
    TimingLogger(0, tmp_path).close()
    sidecar = json.loads((tmp_path / "timing-rank0.meta.json").read_text())
    assert (sidecar["core"], sidecar["core_note"]) == ("native", "")
