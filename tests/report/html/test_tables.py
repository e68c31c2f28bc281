"""Tables of the page: figures as text, and a sentence on the rows that are left out."""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from typing import Any

import pandas as pd
import pytest

from timing_logger.report.html import _tables
from timing_logger.report.html._tables import PageColumn, Shown, table, table_of


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (_tables.decimals(2), 1.236, "1.24"),
        (_tables.decimals(2), pd.NA, "-"),
        (_tables.integer, 3.0, "3"),
        (_tables.integer, nan, "-"),
        (_tables.integer, pd.NA, "-"),
        (_tables.share, 0.0512, "5.1%"),
        (_tables.byte_size, 4096, "4.1 kB"),
        (_tables.significant, 0.0, "0.00"),
        (_tables.significant, 0.012345, "0.0123"),
        (_tables.significant, 1.2345, "1.23"),
        (_tables.significant, -99.94, "-99.9"),
        (_tables.significant, 100.4, "100"),
        (_tables.significant, 123456.0, "123456"),
        (_tables.significant, 1e-12, "0.000000000"),
        (_tables.significant, nan, "-"),
        (_tables.text, "", "-"),
        (_tables.text, "a", "a"),
    ],
)
def test_a_value_is_written_with_its_digits_and_an_unknown_one_as_such(
    write: Callable[[Any], str], value: Any, text: str
) -> None:
    assert write(value) == text


def test_columns_are_written_in_their_order_and_rows_up_to_the_most() -> None:
    frame = pd.DataFrame({"ms": [1.0, 2.0, 3.0], "rank": [0, 1, 2]})
    columns = {"rank": PageColumn("Rank", _tables.integer), "ms": PageColumn("ms", _tables.decimals(1))}
    made = table_of(frame, "Times", columns, Shown(2, "", ""))
    assert made == ("Times", ["Rank", "ms"], [["0", "1.0"], ["1", "2.0"]], "The first 2 of 3 rows.")
    assert table("Times", ["Rank"], [["0"], ["1"], ["2"]], Shown(2, "", "")).rows == [["0"], ["1"]]


@pytest.mark.parametrize(
    ("shown", "n_rows", "note"),
    [
        (Shown(20, "", ""), 20, ""),
        (Shown(20, "", ""), 21, "The first 20 of 21 rows."),
        (
            Shown(20, "slowest", "timing-logger summary --all"),
            1021,
            "Of 1,021 rows these are the 20 slowest; the other 1,001 are not shown. "
            "timing-logger summary --all has all.",
        ),
    ],
)
def test_rows_that_are_left_out_are_counted(shown: Shown, n_rows: int, note: str) -> None:
    assert shown.note(n_rows) == note
