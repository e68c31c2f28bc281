"""Why a run is not called healthy: between whom transfers differ."""

from __future__ import annotations

import pytest

from timing_logger.results.facts import CallCount, Transfer, UnlikeLinks, UntimedCalls
from timing_logger.words.not_told import _between, reason


def message(sender: int, receiver: int) -> Transfer:
    return Transfer("SEND", "", sender, receiver, None)


def of_group(name: str) -> Transfer:
    return Transfer("ALLREDUCE", name, None, None, None)


@pytest.mark.parametrize(("n", "more"), [(1, ""), (3, ""), (4, ", ...")])
def test_three_transfers_are_told_and_that_there_are_more(n: int, more: str) -> None:
    messages = ", ".join(f"from rank {i} to rank {i + 1}" for i in range(min(n, 3)))
    assert _between([message(i, i + 1) for i in range(n)]) == messages + more
    groups = ", ".join("abc"[:n])
    many = "s" if n > 1 else ""
    assert _between([of_group("abcd"[i]) for i in range(n)]) == f"in group{many} {groups}{more}"


def test_two_links_are_two_and_more_are_kinds() -> None:
    two = UnlikeLinks((of_group("a"),), (of_group("b"),), 3.0, 0.16)
    assert "which of the two is usual" in reason(two)
    more = UnlikeLinks((of_group("a"), of_group("c")), (of_group("b"),), 3.0, 0.16)
    assert "which of the kinds is usual" in reason(more)


@pytest.mark.parametrize(
    ("n", "told"),
    [(1, "9 x f0"), (4, "9 x f0, 8 x f1, 7 x f2, 6 x f3"), (5, "9 x f0, 8 x f1, 7 x f2, 6 x f3, ...")],
)
def test_four_functions_that_are_not_timed_are_told_and_that_there_are_more(n: int, told: str) -> None:
    counts = tuple(CallCount(f"f{i}", 9 - i) for i in range(n))
    assert reason(UntimedCalls(counts)).endswith(f"in calls that are not timed ({told})")
