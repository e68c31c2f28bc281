"""The README does what it says: its snippets run, and what it shows was really printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mpi_runner import run_on_ranks
from processes import run_python
from torch_runner import run_under_torchrun

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

SNIPPETS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
SHOWN = dict(re.findall(r"^\$ timing-logger (.+?)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL))
LEFT_OUT = "...\n"
MAKE_TARGETS = set(re.findall(r"^make ([\w-]+)", README, re.MULTILINE))


def test_there_are_snippets_to_try() -> None:
    assert len(SNIPPETS) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_a_snippet_runs_as_it_stands(number: int, tmp_path: Path) -> None:
    snippet = SNIPPETS[number]
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "sample").symlink_to(ROOT / "logs" / "sample")
    program = f"import os; os.chdir({str(tmp_path)!r})\n{snippet}"
    if "mpi4py" in snippet:
        (tmp_path / "snippet.py").write_text(program)
        assert run_on_ranks(2, tmp_path / "snippet.py").returncode == 0
    elif 'os.environ["RANK"]' in snippet:
        (tmp_path / "snippet.py").write_text(program)
        assert run_under_torchrun(2, tmp_path / "snippet.py").returncode == 0
    else:
        run = run_python(program)
        assert run.returncode == 0, run.stderr


def test_commands_are_shown() -> None:
    assert {"stragglers logs/sample", "waits logs/sample"} <= set(SHOWN)


@pytest.mark.parametrize("command", SHOWN)
def test_what_a_command_is_shown_to_print_is_printed(command: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "timing_logger", *command.split()],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "100"},  # what it is in a file or pipe; test runners set their own
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    pattern = ".*".join(re.escape(part) for part in SHOWN[command].split(LEFT_OUT))
    assert re.fullmatch(pattern, run.stdout, re.DOTALL)


def test_the_commands_named_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test"} <= MAKE_TARGETS <= targets
