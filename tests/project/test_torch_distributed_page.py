"""docs/torch-distributed.md does what it says: its snippets run, and leave the rows it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from places import ROOT
from processes import rows, run_warm

PAGE = (ROOT / "docs" / "torch-distributed.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
TIMED_FROM_THE_START, TIMED_LATER = SNIPPETS

BUCKET_AND_WAIT = [("IALLREDUCE", "ddp:weight"), ("WAIT", "ddp:weight")]


@pytest.mark.parametrize(
    ("snippet", "first_bucket"),
    [
        (TIMED_FROM_THE_START, [("0", *row) for row in BUCKET_AND_WAIT]),
        pytest.param(
            TIMED_LATER,
            [("", *row) for row in BUCKET_AND_WAIT],
            marks=pytest.mark.slow("the group that is timed from its start is quick"),
        ),
    ],
    ids=["init_process_group", "instrument"],
)
def test_a_snippet_runs_as_it_stands(
    snippet: str, first_bucket: list[tuple[str, ...]], tmp_path: Path
) -> None:
    run = run_warm(
        f"import os; os.chdir({str(tmp_path)!r})\n{snippet}",
        environment={"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
    )
    assert run.returncode == 0, run.stderr
    (file,) = tmp_path.glob("logs/*/*.csv")
    of_ddp = [(row[1], row[4], row[3]) for row in rows(file) if row[3].startswith("ddp:")]
    assert sorted(of_ddp[:2]) == first_bucket
