"""A copy of the package with one more column, which only ``record.py`` knows."""

from __future__ import annotations

import os
import shutil
import subprocess
import textwrap
from pathlib import Path

import warm
from limits import PROCESS_S

import timing_logger

PACKAGE = Path(timing_logger.__file__).parent
BLANK = {"text": '""', "integer": "None", "amount": "None"}
VALUES = {"text": '"a"', "integer": "7", "amount": "0.5"}
"""A value of each kind of column that records hold, in Python."""


class Copy:
    """The package with the column ``invented`` at the end; the native core in it was built without.

    Attributes:
        folder: where the package is.
        value: a value of the column, in Python.
    """

    def __init__(self, folder: Path, kind: str, *, in_record: bool = True) -> None:
        self.folder = folder
        self.value = VALUES[kind]
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGE, folder / "timing_logger", ignore=ignored)
        path = folder / "timing_logger" / "schema" / "record.py"
        text = path.read_text()
        text = text.replace("\n)\n\nCOLUMNS", f'\n    Field("invented", "{kind}", "made up"),\n)\n\nCOLUMNS')
        if in_record:
            text = text.replace("\n\n\nSTART =", f"\n    invented: Any = {BLANK[kind]}\n\n\nSTART =")
        assert text.count("invented") == 1 + in_record
        path.write_text(text)

    def run(self, program: str, *arguments: object, core: str = "") -> subprocess.CompletedProcess[str]:
        """Run the text ``program`` over the copy."""
        return subprocess.run(
            [warm.python(), "-c", textwrap.dedent(program), *map(str, arguments)],
            capture_output=True, text=True, timeout=PROCESS_S, check=False, cwd=self.folder,
            env={**os.environ, "TIMING_LOGGER_CORE": core},
        )  # fmt: skip

    def said(self, program: str, *arguments: object) -> str:
        """Return what a program that succeeds prints."""
        done = self.run(program, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout
