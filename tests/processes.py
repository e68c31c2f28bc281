"""Runs a program in a Python process of its own, with a time limit that ends only that one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path


def run_python(
    program: str, *arguments: object, timeout_s: float = 60, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the text ``program``; ``sys.argv[1:]`` are ``arguments``. A hang fails the test.

    ``environment`` adds to this process's.
    """
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, **(environment or {})},
    )


def rows(file: Path) -> list[list[str]]:
    """The cells of every complete line of a timing file that has no quoted names."""
    *lines, tail = file.read_text(encoding="utf-8").split("\n")
    assert tail == "", f"the last line of {file} is torn: {tail!r}"
    return [line.split(",") for line in lines[1:]]
