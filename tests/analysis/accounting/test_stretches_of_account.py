"""Stretches of an account are chosen and put together, each with the name of its operation."""

from __future__ import annotations

import numpy as np

from timing_logger.analysis.accounting.stretches import Stretches


def stretches(operations: list[str], codes: list[int], rank: int = 0) -> Stretches:
    n = len(codes)
    number, at_s = np.full(n, rank), np.arange(n) / 2.0
    return Stretches(number, number + 1, at_s, at_s + 0.5, number % 5, np.array(codes), number, operations)


def names(one: Stretches) -> list[str]:
    return [one.operations[code] if code >= 0 else "" for code in one.operation.tolist()]


def test_put_together_each_keeps_its_operation_and_those_of_none_have_none() -> None:
    joined = Stretches.joined(
        [
            stretches(["load", "step"], [1, -1, 0], 3),
            Stretches.none(),
            stretches(["save", "step"], [0, 1, -1], 4),
        ]
    )
    assert joined.operations == ["load", "step", "save"]
    assert names(joined) == ["step", "", "load", "save", "step", ""]
    assert joined.rank.tolist() == [3, 3, 3, 4, 4, 4]
    assert joined.incarnation.tolist() == [4, 4, 4, 5, 5, 5]
    assert joined.end_s.tolist() == [0.5, 1.0, 1.5] * 2


def test_those_wanted_are_chosen_by_a_mask_or_by_position() -> None:
    several = stretches(["load", "step"], [1, -1, 0])
    for wanted in (np.array([True, False, True]), np.array([0, 2])):
        chosen = several.only(wanted)
        assert names(chosen) == ["step", "load"]
        assert chosen.start_s.tolist() == [0.0, 1.0]
