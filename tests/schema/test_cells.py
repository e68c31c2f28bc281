"""Cells of CSV at the bounds of what a column can hold, and the caches of those that repeat."""

from __future__ import annotations

from enum import Enum
from itertools import islice
from typing import Any

import pytest

from timing_logger.schema import cells
from timing_logger.schema.cells import (
    amount_cell,
    amounts,
    distinct_integers,
    escape_text,
    integers,
    interval_cells,
    name_cell,
    operation_cell,
    repaired_amount,
    repaired_integer,
    repaired_interval,
    repaired_text,
    texts,
    timestamps,
    unescape_text,
)

LARGEST, LATEST_NS = 2**63 - 1, 2**62
BOUNDS = (-LARGEST, -1, 0, 1, LARGEST)


def test_the_largest_number_that_analyses_use_is_one_that_a_float_tells_from_the_next() -> None:
    assert float(cells.LARGEST) != float(cells.LARGEST - 1)
    assert float(cells.LARGEST + 1) == float(cells.LARGEST + 2)


# -- texts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("plain", "plain"), ('a"b', '"a""b"'), ("a,b", '"a,b"'), ("a\nb", "a\\u000ab"), ("a\\b", "a\\\\b"),
        ("=a", "\\=a"), ("a=b", "a=b"), ("-", "\\-"), ("\U000e0041", "\\U000e0041"), ("\uffff", "\uffff"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_text_is_a_cell_that_breaks_no_line_and_runs_as_no_formula(text: str, cell: str) -> None:
    assert name_cell(text) == cell
    assert unescape_text(escape_text(text)) == text


def test_an_operation_is_written_in_upper_case_and_a_name_as_it_is() -> None:
    assert (operation_cell('all,"reduce'), name_cell('all,"reduce')) == ('"ALL,""REDUCE"', '"all,""reduce"')


@pytest.mark.parametrize(("length", "is_cut"), [(1024, False), (1025, True)])
def test_a_name_has_1024_characters_at_most_the_last_of_which_tells_of_more(
    length: int, is_cut: bool
) -> None:
    cell = name_cell("x" * length)
    assert cell == ("x" * 1023 + "…" if is_cut else "x" * 1024)


def test_a_column_of_one_text_is_that_cell_for_ever_and_of_several_each_ones() -> None:
    assert list(islice(texts(("a,b", "a,b")), 3)) == ['"a,b"'] * 3
    assert list(texts(("a", "b", "a"))) == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("cache", "most", "keys"),
    [
        (cells._TextColumn(), 4096, [f"name {number}" for number in range(4097)]),
        (cells._Cells(cells._integer_cell), 4096, list(range(4097))),
        (cells._Cells(amount_cell), 4096, [number / 2 for number in range(4097)]),
    ],
    ids=["texts", "integers", "amounts"],
)
def test_a_cache_begins_anew_when_it_is_full(cache: dict[Any, str], most: int, keys: list[Any]) -> None:
    for key in keys[:-1]:
        cache[key]
    assert len(cache) == most
    cache[keys[-1]]
    assert list(cache) == [keys[-1]]


def test_a_name_that_is_too_long_takes_no_room_in_the_cache() -> None:
    cache = cells._TextColumn()
    cache["x" * 1025]
    assert len(cache) == 0


# -- instants --------------------------------------------------------------------------------------------


def test_rows_of_one_second_share_what_is_written_of_it() -> None:
    cells._whole_seconds.clear()
    starts = (0, 999_999_999, 1_000_000_000)
    assert list(timestamps(starts, 10**18)) == [
        "2001-09-09T01:46:40.000000", "2001-09-09T01:46:40.999999", "2001-09-09T01:46:41.000000",
    ]  # fmt: skip
    assert list(cells._whole_seconds) == ["1000000001"]


@pytest.mark.parametrize(
    ("start_ns", "end_ns", "expected"),
    [
        (0, 0, "0.000000,0.000000000,0.000000000"),
        (999_999_999, 1_000_000_000, "0.000001,0.999999999,1.000000000"),
        (5, None, ",0.000000005,"),
        (LATEST_NS, LATEST_NS, "0.000000,4611686018.427387904,4611686018.427387904"),
        (1_000_000_000, 3_500_000_000, "2500.000000,1.000000000,3.500000000"),
    ],
)
def test_an_interval_is_written_digit_by_digit(start_ns: int, end_ns: int | None, expected: str) -> None:
    assert interval_cells(start_ns, end_ns) == expected


@pytest.mark.parametrize(("start_ns", "end_ns"), [(-1, 5), (6, 5), (0, LATEST_NS + 1)])
def test_what_is_no_interval_is_refused(start_ns: int, end_ns: int) -> None:
    with pytest.raises(ValueError, match="not an interval"):
        interval_cells(start_ns, end_ns)


@pytest.mark.parametrize(
    ("given", "repaired"),
    [
        ((5, 6), (5, 6)), ((5, 5), (5, 5)), ((0, LATEST_NS), (0, LATEST_NS)), ((5, 4), (5, None)),
        ((-1, 6), (0, None)), ((LATEST_NS + 1, LATEST_NS + 2), (0, None)), ((5, LATEST_NS + 1), (5, None)),
        (("x", 6), (0, None)), ((LATEST_NS, None), (LATEST_NS, None)),
    ],
)  # fmt: skip
def test_of_an_interval_that_is_none_the_start_is_kept_if_it_is_one(
    given: tuple[Any, Any], repaired: tuple[int, int | None]
) -> None:
    assert repaired_interval(*given) == repaired


# -- numbers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", [integers, distinct_integers])
def test_integers_have_64_bits_at_most_and_none_is_blank(column: Any) -> None:
    assert list(column(BOUNDS)) == list(map(str, BOUNDS))
    assert list(column((None, 5))) == ["", "5"]
    for wrong in (-LARGEST - 1, LARGEST + 1):
        for values in ((wrong, 0), (wrong, None)):
            with pytest.raises(ValueError, match="more than 64 bits"):
                list(column(values))
    for no_integer in (True, 1.0, "1"):
        with pytest.raises(TypeError, match="not a number of its column"):
            column((1, no_integer))


def test_amounts_are_numbers_of_at_least_0_and_none_is_blank() -> None:
    assert list(amounts((None, 0, 0.5, LARGEST))) == ["", "0", "0.5", str(LARGEST)]
    with pytest.raises(TypeError):
        amounts((True,))


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (LARGEST + 1, "9.223372036854776e+18"), (2.0**62, str(2**62)), (2.0**63, "9.223372036854776e+18"),
        (0.1 + 0.2, "0.30000000000000004"), (1 / 3, "0.3333333333333333"),
    ],
)  # fmt: skip
def test_an_amount_has_the_fewest_digits_from_which_it_comes_back(value: float, cell: str) -> None:
    assert amount_cell(value) == cell


def test_integers_are_repaired_if_64_bits_hold_them() -> None:
    assert [repaired_integer(value) for value in BOUNDS] == list(BOUNDS)
    assert [repaired_integer(value) for value in (LARGEST + 1, -LARGEST - 1, True, 1.0, "1", None)] == [
        None
    ] * 6
    assert [repaired_amount(value) for value in (0, 1.5, True, -1, "1", None)] == [
        0,
        1.5,
        None,
        None,
        None,
        None,
    ]


class Name(str, Enum):
    LAYER = "layer1"


def test_a_text_is_repaired_to_a_plain_one_or_to_the_name_of_its_type() -> None:
    assert type(repaired_text(Name.LAYER)) is str
    assert [repaired_text(value) for value in (Name.LAYER, None, 3)] == ["layer1", "", "<int>"]
