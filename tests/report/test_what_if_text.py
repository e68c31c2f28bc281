"""The text of what-if: how sure the answer is, and where it rests on an assumption, that it does."""

from __future__ import annotations

import re

import pandas as pd

from timing_logger.analysis import Fix, WhatIf
from timing_logger.report import what_if_text

NO_TABLE = pd.DataFrame()


def answer(fix: str = "work=even", **fields: object) -> WhatIf:
    known = {
        "run_ms": 10_000.0, "gain_ms": 1_000.0, "gain_low_ms": 800.0, "gain_high_ms": 1_200.0,
        "assumed_gain_ms": None, "slowest": None, "why_unjudged": None, "plays_again": True,
    }  # fmt: skip
    return WhatIf(fixes=(Fix.parse(fix),), **{**known, **fields})  # type: ignore[arg-type]


def told(found: WhatIf, best: pd.DataFrame = NO_TABLE) -> str:
    return re.sub(r"\s+", " ", what_if_text(found, best, NO_TABLE, 200))


def test_an_answer_that_assumes_nothing_says_within_what_it_is() -> None:
    said = told(answer())
    assert "would have taken 9.00 s: 1.00 s less" in said
    assert "it would take that within 0.20 s" in said
    assert "does not tell" not in said


def test_an_answer_that_assumes_something_says_what_else_may_be_so_and_spans_it() -> None:
    said = told(answer(assumed_gain_ms=(0.0, 1_900.0), gain_low_ms=-100.0, gain_high_ms=2_000.0))
    assert "No rank had now more and now less to do, so that the run does not tell" in said
    assert "It is 0 s less if the ranks with more are only slow, and at most 1.90 s less if" in said
    assert "it would take 8.00 s to 10.10 s, with 95% confidence" in said


def test_the_table_of_repairs_says_it_of_even_work() -> None:
    row = {"gain_ms": 900.0, "gain_low_ms": -50.0, "gain_high_ms": 1900.0, "share": 0.09, "of_all": 0.5}
    best = pd.DataFrame([{"fix": "work=even", **row}])
    assert "the interval of work=even spans all that may be so" in told(answer("rank=2"), best)
    assert "work=even" not in told(answer("rank=2"), best.assign(fix="rank=2"))
