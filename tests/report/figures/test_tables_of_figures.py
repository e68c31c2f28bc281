"""Results of analyses of polars tables reach figures with the types that they have in pandas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from places import SAMPLE
from rank_tables import as_polars

from timing_logger import analysis, read_timings
from timing_logger.report.figures._tables import in_pandas


@pytest.mark.parametrize(
    ("analyse", "column"),
    [
        (analysis.account, "waited_for"),
        (analysis.overlap, "iteration"),
        (analysis.bandwidth, "size_class_bytes"),
    ],
)
def test_whole_numbers_of_which_some_are_unknown_stay_whole(
    analyse: Callable[[Any], Any], column: str
) -> None:
    pytest.importorskip("polars")
    timings = read_timings(SAMPLE)
    found, expected = in_pandas(analyse(as_polars(timings)))[column], analyse(timings)[column]
    assert expected.hasnans
    pd.testing.assert_series_equal(found, expected)


def test_a_table_of_pandas_stays_what_it_is() -> None:
    table = analysis.overlap(read_timings(SAMPLE))
    assert in_pandas(table) is table
