"""One record is one line, whatever it holds."""

from __future__ import annotations

import csv
import io
import time
import unicodedata
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timing_logger.schema.record import (
    COLUMNS,
    EARLIER_COLUMNS,
    FIELDS,
    HEADER,
    INCONSISTENT_COUNTERS,
    INVALID_VALUE,
    MAX_TEXT_CHARS,
    OK,
    Record,
    escape_text,
    format_records,
    stated_interval,
    unescape_text,
)

RECORD = Record(
    3, 0, "layer1", "ALLREDUCE", "dense", 110280000, 1_234_567_000_000, 1_234_572_234_000, "host",
    "MPI_COMM_WORLD", 4, 17, None, "MainThread", "ok",
)  # fmt: skip
WALL_OFFSET_NS = 1_770_388_245_123_456_789 - RECORD.start_ns


def type_name(value: object) -> str:
    return type(value).__name__  # pytest cannot name 10**5000 by itself


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters()),
    st.binary(),
    st.just(10**5000),
)


def cells(line: str) -> dict[str, str]:
    (row,) = csv.reader(io.StringIO(line))
    return dict(zip(COLUMNS, row, strict=True))


def line_of(**changes: Any) -> str:
    return format_records([RECORD._replace(**changes)], WALL_OFFSET_NS)


def test_the_first_ten_columns_are_the_guides_in_its_order() -> None:
    assert HEADER.startswith(
        "timestamp,iteration,epoch,layer_name,operation,phase,message_size_bytes,elapsed_ms,start_counter,end_counter,"
    )


def test_every_field_says_what_it_means() -> None:
    assert all(field.meaning for field in FIELDS)


def test_a_line_holds_every_digit() -> None:
    assert line_of() == (
        "2026-02-06T14:30:45.123456,3,0,layer1,ALLREDUCE,dense,110280000,5.234000,1234.567000000,1234.572234000,"
        "host,MPI_COMM_WORLD,4,17,,MainThread,ok" + "," * len(COLUMNS[COLUMNS.index("stream") :]) + "\n"
    )


def test_a_row_of_a_device_has_its_stream_and_its_work() -> None:
    row = cells(line_of(clock="device", stream="cuda:0/7", work=4096))
    assert (row["clock"], row["stream"], row["work"]) == ("device", "cuda:0/7", "4096")


def test_earlier_files_had_all_columns_but_the_last_ones() -> None:
    assert (*EARLIER_COLUMNS[0], "stream") == COLUMNS[:18]
    for fewer, more in pairwise([*EARLIER_COLUMNS, COLUMNS]):
        assert more[:-1] == fewer


def test_nanoseconds_survive_a_year_of_uptime() -> None:
    year_ns = 365 * 86400 * 10**9 + 1
    row = cells(line_of(start_ns=year_ns, end_ns=year_ns + 1))
    assert (row["start_counter"], row["end_counter"]) == ("31536000.000000001", "31536000.000000002")
    assert row["elapsed_ms"] == "0.000001"


@given(st.integers(0, 2**61), st.one_of(st.integers(0, 2**61), st.integers(0, 10**10)))
def test_times_are_written_to_the_last_digit(start_ns: int, elapsed_ns: int) -> None:
    row = cells(line_of(start_ns=start_ns, end_ns=start_ns + elapsed_ns))
    assert Decimal(row["elapsed_ms"]) * 10**6 == elapsed_ns
    assert Decimal(row["start_counter"]) * 10**9 == start_ns
    assert Decimal(row["end_counter"]) * 10**9 == start_ns + elapsed_ns


def test_operations_are_written_in_upper_case() -> None:
    assert cells(line_of(operation="allreduce_dense"))["operation"] == "ALLREDUCE_DENSE"


@pytest.mark.parametrize("column", ["iteration", "epoch", "message_size_bytes", "group_size", "seq", "peer"])
@pytest.mark.parametrize(
    "value", [3.5, "3", True, 10**5000, 2**63, float("nan"), [1], object()], ids=type_name
)
def test_what_is_no_integer_leaves_a_blank_in_a_marked_row(column: str, value: object) -> None:
    row = cells(line_of(**{column: value}))
    assert (row[column], row["status"]) == ("", INVALID_VALUE)
    assert row["elapsed_ms"] == "5.234000"


@pytest.mark.parametrize(
    ("values", "shown"),
    [({"seq": 3.5}, "seq is 3.5, and must be an integer of 64 bits at most"),
     ({"peer": 10**5000}, "peer is of type int, and must be an integer of 64 bits at most"),
     ({"phase": object()}, "phase is of type object, and must be a text"),
     ({"epoch": "x" * 99}, "epoch is 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', and must be an integer")],
    ids=["float", "many digits", "no text", "text"],
)  # fmt: skip
def test_what_a_column_cannot_hold_is_said_once_with_what_it_takes(
    values: dict[str, Any], shown: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timing_logger.schema.cells._told", set())
    for _ in range(2):
        line_of(**values)
    (said,) = caplog.messages
    assert shown in said
    assert "Pass such a value, or none." in said


@pytest.mark.parametrize(
    ("work", "cell"),
    [(4096, "4096"), (4096.0, "4096"), (0, "0"), (-0.0, "0"), (0.5, "0.5"), (0.1, "0.1"),
     (1 / 3, "0.3333333333333333"), (10**12, "1000000000000"), (1e18, "1000000000000000000"),
     (2**53 + 1, "9007199254740993"), (1e21, "1e+21"),
     (2**63, "9.223372036854776e+18"), (1e-7, "1e-07"), (1.7976931348623157e308, "1.7976931348623157e+308"),
     (5e-324, "4.94065645841247e-324")],
    ids=repr,
)  # fmt: skip
def test_work_is_written_in_the_fewest_digits_that_give_it_back(work: float, cell: str) -> None:
    row = cells(line_of(work=work))
    assert (row["work"], row["status"]) == (cell, OK)
    assert float(cell) == float(work)


@pytest.mark.parametrize(
    "work", [-1, -0.001, float("nan"), float("inf"), "7", True, 10**400, [1], object()], ids=type_name
)
def test_work_that_is_no_finite_number_of_at_least_0_leaves_a_blank_in_a_marked_row(
    work: object, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timing_logger.schema.cells._told", set())
    row = cells(line_of(work=work))
    assert (row["work"], row["status"], row["elapsed_ms"]) == ("", INVALID_VALUE, "5.234000")
    assert "work is " in caplog.text
    assert "must be a finite number of at least 0" in caplog.text


def test_numpy_numbers_are_work() -> None:
    numpy = pytest.importorskip("numpy")
    for number, cell in ((numpy.float32(0.5), "0.5"), (numpy.int64(7), "7"), (numpy.float64(3), "3")):
        assert cells(line_of(work=number))["work"] == cell


def test_numpy_integers_are_integers() -> None:
    numpy = pytest.importorskip("numpy")
    row = cells(line_of(message_size_bytes=numpy.int64(42), seq=numpy.uint8(7)))
    assert (row["message_size_bytes"], row["seq"], row["status"]) == ("42", "7", OK)


@pytest.mark.parametrize("end_ns", [RECORD.start_ns - 1, 1.3e12, float("nan"), "x", 2**70])
def test_an_interval_that_is_none_leaves_the_duration_blank(end_ns: object) -> None:
    row = cells(line_of(end_ns=end_ns))
    assert (row["elapsed_ms"], row["end_counter"], row["status"]) == ("", "", INVALID_VALUE)
    assert row["start_counter"] == "1234.567000000"


def test_a_name_that_is_no_text_is_named_by_its_type() -> None:
    row = cells(line_of(layer_name=object()))
    assert (row["layer_name"], row["status"]) == ("<object>", INVALID_VALUE)


def test_a_hostile_object_is_never_asked_for_its_text() -> None:
    class Hostile:
        def __str__(self) -> str:
            raise SystemExit

        __repr__ = __str__

    assert cells(line_of(layer_name=Hostile()))["layer_name"] == "<Hostile>"


def test_an_endless_name_is_cut() -> None:
    name = cells(line_of(layer_name="x" * 10**6))["layer_name"]
    assert len(name) == MAX_TEXT_CHARS
    assert name.endswith("x…")


@pytest.mark.parametrize("name", ["=cmd", "+1", "-1", "@x", "\tx", "\rx"])
def test_no_cell_starts_as_a_formula(name: str) -> None:
    assert cells(line_of(layer_name=name))["layer_name"][0] == "\\"


def test_one_bad_record_leaves_its_neighbours_alone() -> None:
    lines = format_records([RECORD, RECORD._replace(seq="x"), RECORD], WALL_OFFSET_NS).splitlines()  # type: ignore[arg-type]
    assert [cells(line)["status"] for line in lines] == [OK, INVALID_VALUE, OK]


@given(st.text(st.characters()))
def test_escaped_text_is_one_line_and_comes_back(text: str) -> None:
    escaped = escape_text(text)
    assert len(escaped.splitlines()) <= 1
    escaped.encode()
    assert unescape_text(escaped) == text


def test_what_nobody_sees_is_written_as_its_number() -> None:
    """Overrides of the direction of writing, joiners, spaces of no width, fillers."""
    kinds = ("Cf", "Cc", "Zl", "Zp")
    codes = (*range(0x20000), *range(0xE0000, 0xE1000))  # letters and no others, or nothing, between
    unseen = [chr(code) for code in codes if unicodedata.category(chr(code)) in kinds]
    unseen += ["\u034f", "\u115f", "\u3164", "\ufff8", "\U000e0fff"]
    assert len(unseen) > 200
    escaped = [escape_text(character) for character in unseen]
    assert all(text.isascii() and text.isprintable() for text in escaped)
    assert [unescape_text(text) for text in escaped] == unseen
    assert escape_text("layer\u202e\U000e0041") == "layer\\u202e\\U000e0041"
    assert unescape_text("\\U00110000") == "U00110000"  # which is no character


@given(st.lists(st.tuples(*[anything] * len(Record._fields)), max_size=5))
def test_any_records_give_one_line_of_all_cells_each(batch: list[tuple[Any, ...]]) -> None:
    text = format_records(batch, time.time_ns())
    assert text.count("\n") == len(text.splitlines()) == len(batch)
    text.encode()
    assert all(len(cells(line)) == len(COLUMNS) for line in text.splitlines())


@pytest.mark.parametrize("wall_offset_ns", [0, -(10**15), 10**18])
def test_a_clock_that_was_never_set_breaks_no_line(wall_offset_ns: int) -> None:
    assert len(cells(format_records([RECORD._replace(start_ns=0)], wall_offset_ns))["timestamp"]) == 26


def test_a_stated_duration_ends_now() -> None:
    assert stated_interval(5.234, None, None, 10**12) == (10**12 - 5_234_000, 10**12, OK)


def test_stated_counters_place_the_duration() -> None:
    assert stated_interval(5.0, 2.0, 2.005, 10**12) == (2 * 10**9, 2 * 10**9 + 5_000_000, OK)
    assert stated_interval(5.0, None, 2.005, 10**12) == (2 * 10**9, 2 * 10**9 + 5_000_000, OK)
    assert stated_interval(None, 2.0, 2.005, 10**12) == (2 * 10**9, 2_005_000_000, OK)


def test_counters_that_contradict_the_duration_are_marked() -> None:
    assert stated_interval(5.234, 1234.567, 1239.801, 10**12) == (
        1_234_567_000_000, 1_234_572_234_000, INCONSISTENT_COUNTERS,
    )  # fmt: skip


@pytest.mark.parametrize(
    "elapsed_ms", [-0.001, float("nan"), float("inf"), "5", None, [], 10**5000], ids=type_name
)
def test_a_duration_that_is_none_is_marked(elapsed_ms: object) -> None:
    assert stated_interval(elapsed_ms, None, None, 7) == (7, None, INVALID_VALUE)


@pytest.mark.parametrize(
    ("elapsed_ms", "off_ms", "status"),
    [
        (100.0, 9.9, OK), (100.0, -9.9, OK), (100.0, 10.1, INCONSISTENT_COUNTERS),
        (100.0, -10.1, INCONSISTENT_COUNTERS), (5.0, 0.9, OK), (5.0, 1.1, INCONSISTENT_COUNTERS),
    ],
)  # fmt: skip
def test_counters_may_be_off_by_a_tenth_of_the_duration_or_by_1_ms(
    elapsed_ms: float, off_ms: float, status: str
) -> None:
    assert stated_interval(elapsed_ms, 2.0, 2.0 + (elapsed_ms + off_ms) / 1e3, 10**12)[2] == status
