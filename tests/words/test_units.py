"""Figures are told with the digits that matter, each in its unit; unknown ones as such."""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from typing import Any

import pytest

from timing_logger.words import units as _wording


@pytest.mark.parametrize(
    ("say", "value", "text"),
    [
        (_wording.or_unknown, None, "-"),
        (_wording.or_unknown, 0, "0"),
        (_wording.yes_or_no, True, "yes"),
        (_wording.yes_or_no, False, "no"),
        (_wording.yes_or_no, None, "-"),
        (_wording.percent, 0.1234, "12.3%"),
        (_wording.percent, nan, "-"),
        (_wording.seconds, 100.0, "0.10 s"),
        (_wording.seconds, 99.96, "0.1 s"),
        (_wording.seconds, 1234.5, "1.23 s"),
        (_wording.seconds, 1.5, "0.0015 s"),
        (_wording.size, 999.0, "999 B"),
        (_wording.size, 1e3, "1 kB"),
        (_wording.size, 47.44e6, "47.4 MB"),
        (_wording.size, 999.4e6, "999 MB"),
        (_wording.size, 999.5e6, "1000 MB"),
        (_wording.size, 1e9, "1 GB"),
        (_wording.size, 1234e12, "1234 TB"),
        (_wording.size, nan, "-"),
        (_wording.as_ms, 1.23456, "1.235"),
        (_wording.as_tenths, 1.23456, "1.2"),
        (_wording.as_hundredths, 1.23456, "1.23"),
        (_wording.as_hundredths, nan, "-"),
        (_wording.as_duration, 30.6184, "30.618 ms"),
        (_wording.as_duration, 0.1, "0.100 ms"),
        (_wording.as_duration, 0.0999, "99.90 us"),
        (_wording.as_duration, nan, "-"),
        (_wording.as_gb_per_s, 0.01, "0.010"),
        (_wording.as_gb_per_s, 0.0099, "9.9e-03"),
        (_wording.as_utc, 1_770_388_245 * 10**9, "2026-02-06 14:30:45 UTC"),
        (_wording.as_utc, None, "-"),
        (_wording.as_utc, 10**30, "-"),
        (_wording.quoted, "x" * 60, f"'{'x' * 60}'"),
        (_wording.quoted, "x" * 61, f"'{'x' * 60}...'"),
        (_wording.listed, ["a"], "a"),
        (_wording.listed, ["a", "b", "c"], "a; b; or c"),
    ],
)
def test_a_value_is_told_with_the_digits_that_matter(
    say: Callable[[Any], str], value: Any, text: str
) -> None:
    assert say(value) == text


def test_things_are_counted_with_their_plural() -> None:
    assert [_wording.count(n, "row") for n in (0, 1, 2, 1234)] == ["0 rows", "1 row", "2 rows", "1,234 rows"]


def test_only_a_rank_that_was_started_again_has_the_number_of_its_run() -> None:
    assert [_wording.process_name(3, run) for run in (1, 2)] == ["rank 3", "rank 3, run 2"]
