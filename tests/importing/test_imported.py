"""What could not be used is counted by reason, and the commonest reasons are told."""

from __future__ import annotations

import pytest

from timing_logger.importing import imported
from timing_logger.importing.imported import OTHER, LeftOut


def test_records_are_counted_by_reason() -> None:
    left_out = LeftOut()
    for reason, n in (("no JSON", 2), ("no rank", 5)):
        left_out.add(reason, n)
    left_out.add("no JSON")
    assert left_out == {"no JSON": 3, "no rank": 5}


def test_reasons_beyond_the_most_are_counted_under_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imported, "MOST_REASONS", 2)
    left_out = LeftOut()
    for reason in ("a", "b", "c", "a", "d"):
        left_out.add(reason)
    assert left_out == {"a": 2, "b": 1, OTHER: 2}


@pytest.mark.parametrize(
    ("reasons", "told"),
    [("", ""), ("a", ": 1: a"), ("abbccc", ": 3: c; 2: b; 1: a"), ("abbcccdddd", ": 4: d; 3: c; 2: b")],
)
def test_the_three_commonest_reasons_are_told(reasons: str, told: str) -> None:
    left_out = LeftOut()
    for reason in reasons:
        left_out.add(reason)
    assert left_out.briefly == told
