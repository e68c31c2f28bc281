"""Which flaws of collectives a page lists first."""

from __future__ import annotations

from timing_logger.report.html._findings import _most_first


def test_what_most_collectives_have_comes_first_and_else_the_order_is_that_of_names() -> None:
    counts = {("late", "b"): 1, ("late", "a"): 1, ("open", "c"): 7}
    assert [why for why, _ in sorted(counts.items(), key=_most_first)] == [
        ("open", "c"), ("late", "a"), ("late", "b")
    ]  # fmt: skip
