"""The version has one home, ``pyproject.toml``; everything else asks what is installed."""

from __future__ import annotations

import re
import sys
from configparser import ConfigParser
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from processes import run_python

import timing_logger
from timing_logger.cli import main

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which pytest brings along

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
KINDS_OF_CHANGES = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
SETTINGS: dict[str, Any] = tomllib.loads(PROJECT)


def stated_version() -> str:
    return str(SETTINGS["project"]["version"])


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


@pytest.mark.slow("a rarer case; the version of what is installed is quick")
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


def test_no_other_place_states_the_version() -> None:
    assert PROJECT.count(f'"{stated_version()}"') == 1
    elsewhere = [ROOT / "setup.py", ROOT / "setup.cfg", *ROOT.glob("*_instrumentation/**/*.py")]
    elsewhere += ROOT.glob("timing_logger/**/*.py")
    for file in elsewhere:
        assert stated_version() not in file.read_text(encoding="utf-8"), file


def test_setup_cfg_states_which_files_a_wheel_holds_and_no_more() -> None:
    settings = ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    assert settings.sections() == ["options", "options.packages.find", "options.package_data"]
    assert dict(settings["options"]) == {"packages": "find:", "include_package_data": "False"}


def test_tools_are_told_the_oldest_python_that_is_supported() -> None:
    tools = SETTINGS["tool"]
    oldest = SETTINGS["project"]["requires-python"].removeprefix(">=")
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
