"""What epochs are for in a run: three meanings, in an order in which the greatest of all processes counts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from timing_logger.analysis.rows.steps import Epochs, Meaning, numbered


def test_the_meanings_are_distinct_and_ascend() -> None:
    assert [int(meaning) for meaning in Meaning] == [0, 1, 2]
    assert Meaning.NOTHING < Meaning.TELL_STEPS_APART < Meaning.TELL_AND_ARE_COUNTED


@pytest.mark.parametrize(
    ("meaning", "counted"), [(Meaning.TELL_STEPS_APART, False), (Meaning.TELL_AND_ARE_COUNTED, True)]
)
def test_epochs_that_only_tell_steps_apart_are_not_counted(meaning: Meaning, counted: bool) -> None:
    epochs = Epochs(np.array([0.0, 1.0, math.nan]), np.array([True, True, False]), meaning)
    found = numbered(epochs, np.zeros(3)).numbering
    assert found.counted is counted
    assert np.isnan(found.epochs).any() == (not counted)


def test_where_epochs_are_for_nothing_iterations_are_the_steps() -> None:
    epochs = Epochs(np.array([0.0, 1.0]), np.array([True, True]), Meaning.NOTHING)
    assert numbered(epochs, np.array([3.0, 4.0])).number.tolist() == [3.0, 4.0]
