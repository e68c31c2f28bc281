"""docs/metrics.md: its snippet runs, and it names every figure that the analyses give."""

from __future__ import annotations

import re
from typing import Any

import pytest
from places import ROOT
from rank_tables import aligned, collective, table

from timing_logger.analysis import bandwidth, compression, efficiencies, message_waits, overlap, waits

PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
(SNIPPET,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_snippet_runs_as_it_stands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    exec(SNIPPET, {"__name__": "__main__"})
    assert "complete" in capsys.readouterr().out


@pytest.mark.parametrize("analysis", [waits, message_waits, bandwidth, overlap, efficiencies, compression])
def test_every_figure_has_its_place_on_the_page(analysis: Any) -> None:
    figures = analysis(aligned(table(*collective([0, 1], 2))))
    suffixes = ("_ms", "_gb_per_s", "_efficiency", "_arriver", "_violation", "_even", "_by")
    explain_themselves = {"elapsed_ms", "time_p5_ms", "time_p95_ms", "runtime_ms", "matched_by"}
    explain_themselves |= {"useful_mean_ms", "useful_max_ms"}
    named = {name for name in figures if name.endswith(suffixes)} - explain_themselves
    assert {name for name in named if f"`{name}`" not in PAGE} == set()
