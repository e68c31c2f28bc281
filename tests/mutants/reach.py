"""Which quick tests reach which line of the packages: coverage.py is told which test runs while it listens.

Loaded by pytest as a plugin (``-p mutants.reach``), it writes into the folder that ``FOLDER`` names, in which
a ``Reach`` finds the tests of a line afterwards. What programs do that tests start is not heard, but which
start some is; what a fixture does that several tests share counts for the first of them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

FOLDER, PACKAGES = "MUTANTS_REACH_FOLDER", "MUTANTS_REACH_PACKAGES"
"""The environment variables with the folder to write into, and the names of the packages."""

MOST_TESTS = 50
"""So many of the quickest tests of a line are tried first: some lines are reached by thousands."""

STARTS = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty")
"""The audit events of a new process."""


class Reach:
    """The tests of one run under this plugin that passed, by the lines that they reach."""

    def __init__(self, folder: Path, root: Path) -> None:
        from coverage import CoverageData

        self._root = root
        self._took_s: dict[str, float] = json.loads((folder / "passed.json").read_text())
        self._starting: list[str] = json.loads((folder / "starting.json").read_text())
        self._data = CoverageData(str(folder / "lines"))
        self._data.read()

    def tests_of(self, file: Path, line: int) -> list[str]:
        """Return the tests that reach a line, the quickest first.

        Of a line that only an import reaches, they are those that reach any line of its module.
        """
        by_line = self._data.contexts_by_lineno(str(self._root / file))
        of_line = self._took_s.keys() & by_line.get(line, ())
        of_module = self._took_s.keys() & {test for tests in by_line.values() for test in tests}
        return sorted(of_line or of_module, key=lambda test: (self._took_s[test], test))

    def files_of(self, file: Path, line: int) -> set[str]:
        """Return the files of tests that may reach a line: those of which one does, or starts a program.

        What a module that has no function states may be read by any test.
        """
        reaching = self.tests_of(file, line) or self._took_s
        return {test.partition("::")[0] for test in [*reaching, *self._starting]}


class _Listener:
    def __init__(self, folder: Path, packages: Sequence[str]) -> None:
        from coverage import Coverage

        self._folder, self._took_s, self._failed = folder, dict[str, float](), set[str]()
        self._running, self._starting = "", set[str]()
        self._coverage = Coverage(str(folder / "lines"), source_pkgs=packages, config_file=False)
        self._coverage.start()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, _: object) -> None:
        if event in STARTS and self._running:
            self._starting.add(self._running)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running = nodeid
        self._coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took_s[report.nodeid] = self._took_s.get(report.nodeid, 0.0) + report.duration
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()
        passed = {test: took_s for test, took_s in self._took_s.items() if test not in self._failed}
        (self._folder / "starting.json").write_text(json.dumps(sorted(self._starting)))
        (self._folder / "passed.json").write_text(json.dumps(passed))


def pytest_configure(config: pytest.Config) -> None:
    """Listen from here on: before the packages are imported."""
    folder = Path(os.environ[FOLDER])
    config.pluginmanager.register(_Listener(folder, os.environ[PACKAGES].split(",")))
