"""What is read of the lines of a timing file, and what of them is damaged."""

from __future__ import annotations

import math
from typing import Any

import pytest
from timing_files import content, record

from timing_logger.reading import csv_lines
from timing_logger.reading.csv_lines import (
    BARE_COLUMNS,
    UnknownHeader,
    parse_sound_lines,
    parse_timings,
    unescaped,
)
from timing_logger.schema.record import HEADER

SOUND = content([record("FORWARD", iteration=at, seq=at) for at in range(4)])
HEAD, *LINES = SOUND.splitlines(keepends=True)
OF_FEWER = b"".join(LINES[:2]) + LINES[2].replace(b",FORWARD,", b",") + LINES[3]


def test_a_last_line_without_an_end_is_cut_and_counts_in_the_size() -> None:
    data = SOUND + b"12.3\xff"
    parsed = parse_timings(data)
    assert len(parsed.frame) == 4
    about = parsed.content
    assert (about.n_rows, about.n_bytes, about.cut, about.bad_lines) == (4, len(data), "12.3\\xff", 0)


@pytest.mark.parametrize("n_bytes", [1, 2 * len(LINES[0]) + 1])
def test_in_blocks_of_any_size_the_same_is_read(monkeypatch: pytest.MonkeyPatch, n_bytes: int) -> None:
    monkeypatch.setattr(csv_lines, "_BLOCK_BYTES", n_bytes)
    parsed = parse_timings(HEAD + OF_FEWER + HEAD + LINES[0])
    assert parsed.frame["seq"].tolist() == [0, 1, 3, 0]
    assert parsed.content.bad_lines == 2
    assert parsed.content.headers == [3]


def test_a_few_damaged_lines_are_examples_and_long_ones_are_shortened() -> None:
    bad = b"".join(b"%d" % at * 300 + b"\n" for at in range(5))
    about = parse_timings(SOUND + bad).content
    assert (about.bad_lines, about.bad_examples) == (5, [str(at) * 200 for at in range(3)])


@pytest.mark.parametrize(
    "torn", [HEADER[:7], HEADER.strip(), HEADER[:-1] + "\r", "", "times", HEADER[:9] + "\0"]
)
def test_a_header_that_may_still_become_one_is_cut(torn: str) -> None:
    parsed = parse_timings(torn.encode())
    assert (len(parsed.frame), parsed.content.cut) == (0, torn)


@pytest.mark.parametrize("other", ["timesx", "a,b", HEADER[:-1] + ",other", "timestamp,x"])
def test_what_can_never_be_a_header_is_refused_with_it(other: str) -> None:
    with pytest.raises(UnknownHeader) as caught:
        parse_timings(other.encode())
    assert caught.value.args == (other,)


@pytest.mark.parametrize("change", ["lacks", "twice"])
def test_a_header_that_lacks_a_column_or_has_one_twice_is_refused(change: str) -> None:
    names = list(BARE_COLUMNS[1:]) if change == "lacks" else [*BARE_COLUMNS, BARE_COLUMNS[0]]
    with pytest.raises(UnknownHeader):
        parse_timings(",".join(names).encode() + b"\n")


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("3", 3), ("3.0", 3), ("1e+16", 10**16), (" 7 ", 7),
        (str(2**63 - 1), 2**63 - 1), (str(-(2**63)), -(2**63)),
        ("", None), ("NaN", None), ("n/a", None),
    ],
)  # fmt: skip
def test_integers_may_have_been_saved_by_another_program(cell: str, number: int | None) -> None:
    parsed = parse_timings(HEAD + with_seq(cell) + with_seq("5"))
    assert parsed.content.bad_lines == 0
    assert parsed.frame["seq"].astype(object).where(parsed.frame["seq"].notna(), None).tolist() == [number, 5]


@pytest.mark.parametrize("cell", ["x", "3.5", "inf", str(2**63), str(-(2**63) - 1), "1e30"])
def test_what_is_no_integer_of_64_bits_is_damaged(cell: str) -> None:
    parsed = parse_timings(HEAD + with_seq(cell) + with_seq("5"))
    assert (parsed.frame["seq"].tolist(), parsed.content.bad_lines) == ([5], 1)


def with_seq(cell: str) -> bytes:
    """Return a line whose number of the collective is this cell."""
    values = LINES[0].decode().rstrip("\n").split(",")
    values[HEADER.rstrip("\n").split(",").index("seq")] = cell
    return ",".join(values).encode() + b"\n"


@pytest.mark.parametrize(("cell", "value"), [("0.125", 0.125), ("", math.nan), ("null", math.nan)])
def test_durations_are_numbers_or_lack(cell: str, value: float) -> None:
    found = parse_timings(HEAD + with_elapsed(cell) + with_elapsed("2")).frame["elapsed_ms"].tolist()
    assert found == pytest.approx([value, 2.0], nan_ok=True)


@pytest.mark.parametrize("cell", ["inf", "-inf", "x", "1e999"])
def test_a_duration_that_is_none_is_damage(cell: str) -> None:
    parsed = parse_timings(HEAD + with_elapsed(cell) + with_elapsed("2"))
    assert (parsed.frame["elapsed_ms"].tolist(), parsed.content.bad_lines) == ([2.0], 1)


def with_elapsed(cell: str) -> bytes:
    values = LINES[0].decode().rstrip("\n").split(",")
    values[HEADER.rstrip("\n").split(",").index("elapsed_ms")] = cell
    return ",".join(values).encode() + b"\n"


@pytest.mark.parametrize(
    "lines", [OF_FEWER, LINES[0] + b"a\0b\n", LINES[0][:-1], with_seq("x"), with_seq("null")]
)
def test_lines_of_which_one_is_not_sound_are_not_taken_together(lines: bytes) -> None:
    assert parse_sound_lines(lines, HEAD) is None


def test_sound_lines_are_taken_together() -> None:
    found: Any = parse_sound_lines(b"".join(LINES), HEAD)
    assert found["seq"].tolist() == [0, 1, 2, 3]
    none: Any = parse_sound_lines(b"", HEAD)
    assert len(none) == 0
    with pytest.raises(UnknownHeader):
        parse_sound_lines(b"", b"a,b\n")


def test_escapes_are_resolved_but_for_lone_surrogates() -> None:
    assert unescaped(r"h\u00e9") == "hé"
    assert unescaped(r"\ud800") == r"\ud800"
