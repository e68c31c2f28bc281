"""Tables on the terminal: nothing of them is lost without a word, however narrow it is."""

from __future__ import annotations

import pandas as pd
import pytest
from slow import slow

from timing_logger.report._text_tables import Column, _widths, table_text
from timing_logger.words.units import as_ms, as_word

COLUMNS = (
    Column("layer", "layer", as_word), Column("pays", "pays"), Column("achieved_ms", "achieved ms", as_ms),
    Column("estimate_ms", "estimate ms", as_ms),
)  # fmt: skip
FRAME = pd.DataFrame(
    {"layer": ["fc.weight (+3 more)"], "pays": ["no"], "achieved_ms": [1234.5], "estimate_ms": [0.141]}
)


@pytest.mark.parametrize(
    "width",
    [width if width % 5 == 0 else slow(width, "between widths that are tried") for width in range(20, 60)],
)
def test_figures_are_whole_or_their_column_is_named(width: int) -> None:
    text = table_text(FRAME, COLUMNS, width)
    left_out = " ".join(text.partition("No room for:")[2].split())
    assert ("1234.500" in text) != ("achieved ms" in left_out)
    assert ("0.141" in text) != ("estimate ms" in left_out)
    assert max(map(len, text.splitlines())) <= width


def test_where_there_is_room_all_columns_are_shown_on_one_line() -> None:
    heads, _, row = table_text(FRAME, COLUMNS, 60).splitlines()
    assert heads.split() == ["layer", "pays", "achieved", "ms", "estimate", "ms"]
    assert row.split() == ["fc.weight", "(+3", "more)", "no", "1234.500", "0.141"]


def test_a_column_without_a_known_value_is_left_out() -> None:
    unknown = FRAME.assign(estimate_ms=float("nan"))
    assert "estimate" not in table_text(unknown, COLUMNS, 60)


@pytest.mark.parametrize(
    ("width", "widths"), [(1, [6]), (5, [6]), (9, [7]), (10, [6, 2]), (11, [7, 2]), (40, [7, 3])]
)
def test_figures_stay_whole_and_room_that_is_left_goes_to_the_first_columns(
    width: int, widths: list[int]
) -> None:
    columns = [Column("a", "head of"), Column("b", "x y")]
    assert _widths(columns, [["123456", "1"], ["12", "1"]], width) == widths
