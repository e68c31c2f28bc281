"""One difference between two sides, as tables have it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from timing_logger.words.comparison import is_sure, of_what, signed, what_differs


@pytest.mark.parametrize(
    ("ms", "told"),
    [(1.234, "+1.23"), (-0.5, "-0.50"), (9_999_999.0, "+9999999.00"), (1e7, "+1e+07"), (-2e9, "-2e+09")],
)
def test_a_difference_has_its_sign_and_a_huge_one_only_its_magnitude(ms: float, told: str) -> None:
    assert signed(ms) == told


@pytest.mark.parametrize(
    ("does", "n_runs", "n_against", "mark"),
    [("", 3, 3, ""), ("", 3, 0, " (new)"), ("", 0, 3, " (gone)"), ("divided", 3, 0, " (divided)")],
)
def test_what_only_one_side_has_is_marked(does: str, n_runs: int, n_against: int, mark: str) -> None:
    one: Any = SimpleNamespace(operation="load", does=does, n_runs=n_runs, n_against=n_against)
    assert what_differs(one) == f"load{mark}"


@pytest.mark.parametrize(
    ("kind", "told"),
    [("rank", "rank 3"), ("account", "part of the step"), ("communication", "backward, world")],
)
def test_it_is_told_of_what_a_difference_is(kind: str, told: str) -> None:
    one: Any = SimpleNamespace(kind=kind, rank=3, phase="backward", group="world", layer="")
    assert of_what(one) == told


@pytest.mark.parametrize(
    ("is_named", "is_shown", "sure"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_a_difference_is_sure_only_if_it_is_one_of_few_and_its_interval_excludes_none(
    is_named: bool, is_shown: bool, sure: bool
) -> None:
    one: Any = SimpleNamespace(is_named=is_named, shift=SimpleNamespace(is_shown=is_shown))
    assert is_sure(one) is sure
