"""docs/frameworks.md does what it says: its snippets run, and leave the rows it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from places import ROOT
from processes import rows, run_warm

PAGE = (ROOT / "docs" / "frameworks.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
OF_LIGHTNING, OF_ITS_PROFILER, OF_HUGGING_FACE = SNIPPETS


@pytest.mark.slow("deep: CI runs it when a page changes; Lightning and Transformers take ten seconds")
@pytest.mark.parametrize(
    ("snippet", "step", "n_steps"),
    [
        (OF_LIGHTNING, ["DATA", "FORWARD", "BACKWARD", "OPTIMIZER", "TRAIN_STEP"], 4),
        (OF_ITS_PROFILER, [], 0),
        (OF_HUGGING_FACE, ["DATA", "FORWARD_BACKWARD", "OPTIMIZER", "TRAIN_STEP"], 3),
    ],
    ids=["Lightning", "profiler", "Hugging Face"],
)
def test_a_snippet_runs_as_it_stands(snippet: str, step: list[str], n_steps: int, tmp_path: Path) -> None:
    run = run_warm(f"import os; os.chdir({str(tmp_path)!r})\n{snippet}", environment={"OMP_NUM_THREADS": "1"})
    assert run.returncode == 0, run.stderr
    files = list(tmp_path.glob("logs/timing/*.csv"))
    operations = [row[4] for file in files for row in rows(file)]
    assert [name for name in operations if name not in ("SAVE", "LOG")] == step * n_steps
