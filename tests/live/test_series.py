"""The table of figures is what the page says, and what the dashboard asks for."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from timing_logger.live.series import SERIES

PAGE = ROOT / "docs" / "dashboards.md"
DASHBOARD: dict[str, Any] = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text(encoding="utf-8"))
NAMES = {series.full_name: series for series in SERIES}
OF_SCRAPES = {"instance", "job"}


def targets() -> Iterator[dict[str, Any]]:
    for panel in DASHBOARD["panels"]:
        yield from panel["targets"]
    yield from (
        {"expr": one["expr"], "legendFormat": one["titleFormat"]} for one in DASHBOARD["annotations"]["list"]
    )


def test_the_page_has_the_table_that_the_code_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Path(shutil.copy(PAGE, tmp_path))
    program = str(ROOT / "website" / "made_tables.py")
    monkeypatch.setattr(sys, "argv", [program, "series", str(copy)])
    runpy.run_path(program, run_name="__main__")
    assert copy.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8"), (
        "make numbers writes the table"
    )


def test_each_query_of_the_dashboard_names_series_that_exist_with_labels_that_they_have() -> None:
    for target in targets():
        expression = target["expr"]
        selected = re.findall(r"\b(timing_logger_\w+)(?:\{(.*?)\})?", expression)
        assert selected, expression
        for name, matchers in selected:
            labels = set(re.findall(r"(\w+)=~?\"", matchers)) | set(
                re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
            )
            assert labels <= {*NAMES[name].labels, *OF_SCRAPES}, expression


def test_each_series_is_on_the_dashboard_or_said_by_one_that_is() -> None:
    asked = {name for target in targets() for name in re.findall(r"\btiming_logger_\w+", target["expr"])}
    told_otherwise = {
        "epoch", "window", "rows", "rank_closed", "rank_iteration", "rank_communication_ratio",
        "rank_silence", "rank_rows_written", "rank_rows_dropped",
    }  # fmt: skip
    told = {series.full_name for series in SERIES if series.name in told_otherwise}
    assert set(NAMES) - asked == told, "docs/grafana-dashboard.json asks for each other one"


def test_the_rules_and_the_text_of_the_page_name_series_that_exist() -> None:
    named = set(re.findall(r"\btiming_logger_\w+", PAGE.read_text(encoding="utf-8")))
    assert named == set(NAMES)


def test_the_names_of_nccl_are_not_taken() -> None:
    assert not any(name.startswith("nccl_") for name in NAMES)
