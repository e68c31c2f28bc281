"""The page about GPUs has a column for each kind of GPU, and its data files all figures."""

from __future__ import annotations

from pathlib import Path

import _tables_of_page as tables
import validation_page
from places import ROOT

PAGE = ROOT / "docs" / "validation-gpu.md"


def test_a_run_on_another_gpu_adds_a_column_and_a_data_file(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("By hand.\n<!-- made: figures -->\nold\n<!-- end -->\nBy hand, too.\n")
    first = [("run", "2026: 2 passed"), ("all_reduce, untimed 11 us", "+23 us timed"), ("anchors", "43")]
    validation_page.write(page, "GPU 1", [("run", "2025: 1 passed")])
    validation_page.write(page, "GPU 1", first)
    validation_page.write(page, "GPU 2", [("run", "2027: 1 failed"), ("failed", "a.py::test")])
    assert page.read_text().splitlines()[2:-2] == [
        "| | [GPU 1](data/page-gpu-1.csv) | [GPU 2](data/page-gpu-2.csv) |",
        "|---|---|---|",
        "| run | 2026: 2 passed | 2027: 1 failed |",
        "| failed |  | a.py::test |",
        "| `all_reduce`, on the host | untimed 11 us: +23 us timed |  |",
    ]
    assert page.read_text().startswith("By hand.\n")
    assert tables.read_csv(tmp_path / "data" / "page-gpu-1.csv") == [list(one) for one in first]


def test_the_page_is_what_its_data_say() -> None:
    files = sorted(PAGE.parent.glob("data/validation-gpu-*.csv"))
    assert len(files) > 1
    assert "\n".join(validation_page._table(files)) in PAGE.read_text(encoding="utf-8")
