"""The timing logger guide, followed to the letter. The other systems' snippets stand beside their tests."""

from __future__ import annotations

from pathlib import Path

from mpi_runner import run_on_ranks
from processes import rows


def test_the_guide_works_as_it_is_written(tmp_path: Path) -> None:
    run = run_on_ranks(2, "guide.py", str(tmp_path / "logs" / "timing"))
    assert run.returncode == 0, run.stderr
    for rank in range(2):
        file = tmp_path / "logs" / "timing" / f"timing-rank{rank}.csv"
        by_hand = [row for row in rows(file) if row[3] == "layer1"]
        assert [(row[1], row[4], row[5], row[6]) for row in by_hand] == [
            ("100", "ALLREDUCE", "dense", "110280000"),
            ("101", "ALLREDUCE", "dense", "8000"),
            ("5", "ALLREDUCE", "", "8000"),
        ]
        assert by_hand[0][7] == "5.234000"
        trained = {(row[1], row[2]) for row in rows(file) if row[4] == "ALLREDUCE" and row[3] != "layer1"}
        assert trained == {(str(i), str(i // 3)) for i in range(6)}
