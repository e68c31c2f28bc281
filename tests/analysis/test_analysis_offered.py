"""What a public analysis has: its columns in the table, its place on a page, and tables of both libraries."""

from __future__ import annotations

import inspect
import re
from typing import Any

import polars as pl
import pytest
from places import ROOT
from rank_tables import as_polars, quick_table
from timing_files import record

from timing_logger import analysis
from timing_logger.analysis import COLUMNS_OF


def first_of(name: str) -> str:
    """Return the name of the first parameter of what the package offers."""
    offered = getattr(analysis, name)
    return next(iter(inspect.signature(offered).parameters)) if inspect.isfunction(offered) else ""


OFFERED = {name for name in analysis.__all__ if first_of(name) == "timings"}

WITH_COLUMNS_OF_OTHERS = {
    "account_of_step", "message_waits", "repairs", "sampled_code", "scores", "spread_between_ranks",
    "stragglers_and_windows", "summarize_ranks", "summarize_statuses", "transfer_costs", "what_if", "windows",
}  # fmt: skip

PAGES = ("metrics", "compare", "files", "stragglers", "stragglers-numbers", "what-if")
PARTS_OF_OTHERS = {
    "overview", "spread_between_ranks", "stragglers_and_windows", "summarize_ranks", "summarize_statuses",
}  # fmt: skip


def test_the_columns_of_each_analysis_are_stated() -> None:
    unstated = OFFERED - {*COLUMNS_OF} - WITH_COLUMNS_OF_OTHERS
    assert unstated == set(), "COLUMNS_OF in analysis/rows/analysis.py lacks it"


def test_a_page_explains_each_analysis() -> None:
    text = "".join((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in PAGES)
    explained = {*re.findall(r"`(\w+)[`(]", text), *re.findall(r"\b(\w+)\(", text)}
    assert OFFERED - explained - PARTS_OF_OTHERS == set(), "docs/metrics.md lacks it"


def steps_of_two_ranks() -> Any:
    rows = [
        [
            record(start_s=1 + step, elapsed_ms=500, iteration=step, seq=step, group_size=2)
            for step in range(4)
        ]
        for _ in range(2)
    ]
    return as_polars(quick_table(*rows))


TAKEN_ALONE = {
    name
    for name in OFFERED - {"overview"}  # which reports ask, with a table of pandas
    if sum(one.default is one.empty for one in inspect.signature(getattr(analysis, name)).parameters.values())
    == 1
}


@pytest.mark.parametrize("name", sorted(TAKEN_ALONE))
def test_a_table_of_polars_is_taken_and_a_table_made_of_it_is_one_of_polars(name: str) -> None:
    found = getattr(analysis, name)(steps_of_two_ranks())
    assert isinstance(found, pl.DataFrame) or not hasattr(found, "columns")
