"""The end of a run as plain values."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from timing_logger.results.plain import plain_fields
from timing_logger.results.run_end import RunEnd


class Named(NamedTuple):
    of: tuple[int, ...]


@dataclass
class Inner:
    s: float


@dataclass
class Outer:
    value: Any


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ((1, (2, "x")), [1, [2, "x"]]), (Named((1, 2)), {"of": [1, 2]}), (Inner(2.5), {"s": 2.5}),
        ((Inner(math.inf), Named(())), [{"s": None}, {"of": []}]), ({3: (1.0, math.nan)}, {"3": [1.0, None]}),
        (None, None), (True, True), ("text", "text"),
    ],
)  # fmt: skip
def test_what_is_within_becomes_plain(value: Any, plain: Any) -> None:
    assert plain_fields(Outer(value)) == {"value": plain}


@pytest.mark.parametrize(
    ("state", "has_ended", "warns"),
    [
        ("ended", True, False), ("failed", True, True), ("unfinished", False, True), ("hang", False, True),
        ("running", False, False), ("unknown", False, False),
    ],
)  # fmt: skip
def test_a_bad_end_is_warned_of_and_only_closed_files_have_ended(
    state: Any, has_ended: bool, warns: bool
) -> None:
    end = RunEnd(state=state, ranks=(), sentences=("It stands still.", "More."))
    assert (end.ended, end.hangs, end.warning) == (
        has_ended, state == "hang", "It stands still." if warns else "",
    )  # fmt: skip
    assert json.loads(json.dumps(end.as_dict()))["ended"] is has_ended
