"""A line of a log of steps is a record, or is counted as what it is instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from timing_logger.importing.imported import LeftOut
from timing_logger.importing.step_records import (
    Cell,
    StepRecords,
    Unusable,
    amount,
    cell,
    duration_ns,
    has,
    unix_ns,
    whole,
)

NAN, INF = float("nan"), float("inf")


def records_in(name: str, *lines: str) -> tuple[list[dict[str, object]], LeftOut]:
    """Return the records in lines of a file of this name, and what was left out."""
    left_out = LeftOut()
    records = StepRecords(Path(name), left_out)
    found = [record for line in lines if (record := records.of(line)) is not None]
    return [dict(record) for record in found], left_out


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ('1,"0.5', "a line that is no CSV"),
        ("1", "a line that has not as many cells as the header"),
        ("1,2,3", "a line that has not as many cells as the header"),
    ],
)
def test_a_line_of_csv_that_is_no_record_is_counted_and_the_next_is_read(line: str, instead: str) -> None:
    found, left_out = records_in("log.csv", "step,s", line, "2,0.5")
    assert (found, left_out) == ([{"step": "2", "s": "0.5"}], {instead: 1})


def test_a_quoted_cell_may_hold_what_separates_cells() -> None:
    assert records_in("log.csv", "step,note", '1,"a, b"') == ([{"step": "1", "note": "a, b"}], {})


def test_a_further_header_is_neither_a_record_nor_counted() -> None:
    assert records_in("log.csv", "step,s", "1,2", "step,s") == ([{"step": "1", "s": "2"}], {})


@pytest.mark.parametrize(
    ("name", "header", "line"),
    [
        ("log.csv", "step;s", "1;2"),
        ("log.csv", "step|s", "1|2"),
        ("log.tsv", "step\ta,b,c", "1\t2"),
        ("LOG.TSV.gz", "step\ta,b,c", "1\t2"),
        ("log.csv", " step , s ", "1,2"),
    ],
)
def test_cells_are_separated_as_the_header_or_the_name_of_the_file_tells(
    name: str, header: str, line: str
) -> None:
    found, _ = records_in(name, header, line)
    assert [list(record.values()) for record in found] == [["1", "2"]]


@pytest.mark.parametrize(
    ("line", "instead"), [('{"step"', "a line that is no JSON"), ("[1]", "a line that is no JSON object")]
)
def test_a_line_of_json_that_is_no_record_is_counted(line: str, instead: str) -> None:
    found, left_out = records_in("log.jsonl", ' {"step": 1}', line)
    assert (found, left_out) == ([{"step": 1}], {instead: 1})


def test_a_line_of_json_that_is_too_deep_is_no_json() -> None:
    assert records_in("log.jsonl", "{}", "[" * 100_000) == ([{}], {"a line that is no JSON": 1})


def test_a_cell_of_csv_may_be_long() -> None:
    found, left_out = records_in("log.csv", "step,note", "1," + "x" * 200_000)
    assert ([len(str(record["note"])) for record in found], left_out) == ([200_000], {})


# -- cells -------------------------------------------------------------------------------------------

RECORD = {"a": 0, "b": False, "c": " ", "d": None, "x.y": 7, "x": {"y": 8, "z": {"u": 9, "v": ""}}, "n": 3}


@pytest.mark.parametrize(("name", "value"), [("a", 0), ("b", False), ("x.y", 7), ("x.z.u", 9), ("n", 3)])
def test_a_name_leads_to_its_cell_and_with_dots_into_objects_unless_a_column_is_called_so(
    name: str, value: object
) -> None:
    assert cell(RECORD, name) == Cell(name, value)
    assert has(RECORD, name)


@pytest.mark.parametrize("name", ["c", "d", "e", "e.y", "x.u", "x.z.v", "n.y", "x.y.z"])
def test_what_is_blank_or_not_there_is_no_cell(name: str) -> None:
    assert not has(RECORD, name)
    with pytest.raises(Unusable, match=rf"^a record without a value of '{name}'$"):
        cell(RECORD, name)


def found_or_why(function: Any, value: Any, *further: Any) -> Any:
    """Return what a cell called ``s`` is; if it is none, what it is said not to be."""
    try:
        return function(Cell("s", value), *further)
    except Unusable as why:
        return str(why).removeprefix("a value of 's' that is ")


@pytest.mark.parametrize("value", [0, 5, 5.0, "5", " 5 ", "5e0"])
def test_a_whole_number_may_be_a_text_and_the_most(value: Any) -> None:
    assert found_or_why(whole, value, 5) == int(float(value))


@pytest.mark.parametrize("value", [6, -1, 0.5, "", "x", NAN, INF, True, [5], None])
def test_what_is_no_whole_number_or_more_than_the_most_is_refused(value: Any) -> None:
    assert found_or_why(whole, value, 5) == "no whole number of 0 or more, or too large"


@pytest.mark.parametrize(
    ("value", "units_per_s", "found_ns"),
    [(0, 1.0, 0), ("0.25", 1.0, 250_000_000), (0.25, 1e3, 250_000), (1e8, 1.0, 10**17), (1e11, 1e3, 10**17)],
)
def test_a_duration_is_in_its_unit_and_at_most_three_years(
    value: Any, units_per_s: float, found_ns: int
) -> None:
    assert found_or_why(duration_ns, value, units_per_s) == found_ns


@pytest.mark.parametrize("value", [-1e-9, 100_000_001, NAN, INF, "x", False, 10**400])
def test_what_is_no_duration_is_refused(value: Any) -> None:
    assert found_or_why(duration_ns, value, 1.0) == "no duration of 0 or more"


def test_an_amount_is_any_number_from_0_on() -> None:
    assert [found_or_why(amount, value) for value in (0, "2.5", 1e300)] == [0.0, 2.5, 1e300]
    assert {found_or_why(amount, value) for value in (-1, INF, NAN, "x", True)} == {"no number of 0 or more"}


@pytest.mark.parametrize(
    ("value", "found_ns"),
    [
        (0, 0), (0.25, 250_000_000), ("1770388245.5", 1_770_388_245_500_000_000),
        (4 * 10**9, 4 * 10**18), (4 * 10**9 + 1, 4_000_000_001 * 10**6),
        (4 * 10**12, 4 * 10**18), (4 * 10**12 + 1000, 4_000_000_001_000 * 10**3),
        (4 * 10**15, 4 * 10**18), (1_770_388_245_500_000_256, 1_770_388_245_500_000_256),
        ("1970-01-02T00:00:01.000005", 86_401_000_005_000), (" 1970-01-01T01:00:00+01:00 ", 0),
    ],
)  # fmt: skip
def test_the_size_of_a_number_tells_the_unit_of_an_instant_and_a_text_is_utc_unless_it_says_more(
    value: Any, found_ns: int
) -> None:
    assert found_or_why(unix_ns, value) == found_ns


@pytest.mark.parametrize(
    "value",
    [-1, INF, 5 * 10**18, "yesterday", "", None, "2026-02-30", "1969-12-31T23:59:59Z", "2300-01-01", [1]],
)
def test_what_is_no_instant_is_refused(value: Any) -> None:
    assert found_or_why(unix_ns, value) == "no instant"
