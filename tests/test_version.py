"""The version has one home, ``setup.cfg``; everything else asks what is installed."""

from __future__ import annotations

import re
import sys
from configparser import ConfigParser
from importlib.metadata import version
from pathlib import Path

import pytest
from processes import run_python

import timing_logger
from timing_logger.cli import main

ROOT = Path(__file__).parent.parent
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
KINDS_OF_CHANGES = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def stated(section: str, fact: str) -> str:
    settings = ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    return settings[section][fact]


def stated_version() -> str:
    return stated("metadata", "version")


def test_the_package_has_the_version_that_is_installed() -> None:
    assert timing_logger.__version__ == version("timing_logger")
    assert "__version__" in dir(timing_logger)


def test_the_command_line_has_the_version_that_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    said = capsys.readouterr().out
    assert said.startswith(
        f"timing-logger {version('timing_logger')}. Records with the {timing_logger.recording_core} core"
    )


def test_no_process_that_only_records_looks_the_version_up() -> None:
    run = run_python("import sys, timing_logger; print('importlib.metadata' in sys.modules)")
    assert run.stdout == "False\n", run.stderr


def test_a_folder_that_is_not_installed_has_no_version(tmp_path: Path) -> None:
    # Not from here: beside the package lies what pip writes of it, if it is installed from this folder.
    (tmp_path / "timing_logger").symlink_to(ROOT / "timing_logger")
    program = f"""
        import sys
        sys.path = [{str(tmp_path)!r}, *(path for path in sys.path if path.startswith({sys.base_prefix!r}))]
        import timing_logger
        print(hasattr(timing_logger, "__version__"))
        timing_logger.__version__
        """
    run = run_python(program, environment={"PYTHONPATH": "", "PYTHONSAFEPATH": "1"})
    assert run.stdout == "False\n", run.stderr
    assert re.search("AttributeError: .* not installed", run.stderr)


def test_no_other_file_states_the_version() -> None:
    elsewhere = [ROOT / "setup.py", ROOT / "pyproject.toml", *ROOT.glob("*_instrumentation/**/*.py")]
    elsewhere += ROOT.glob("timing_logger/**/*.py")
    for file in elsewhere:
        assert stated_version() not in file.read_text(encoding="utf-8"), file


def test_tools_are_told_the_oldest_python_that_is_supported() -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python has it since 3.11")
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    oldest = stated("options", "python_requires").removeprefix(">=")
    assert tools["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"
    assert tools["mypy"]["python_version"] == tools["uv"]["pip"]["python-version"] == oldest


def test_the_newest_release_of_the_changelog_is_the_version() -> None:
    headings = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(stated_version())}\] - \d{{4}}-\d\d-\d\d", headings[1])


def test_each_release_of_the_changelog_sorts_its_changes() -> None:
    for release in re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (.*)$", release, re.MULTILINE)
        assert kinds == [kind for kind in KINDS_OF_CHANGES if kind in kinds], release
