"""Which step each row is of, and how steps are named where iterations restart in each epoch."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from timing_logger.analysis.rows.steps import (
    Epochs,
    Meaning,
    Numbering,
    Steps,
    numbered,
    numbered_by_epoch,
    with_epoch,
)
from timing_logger.analysis.rows.tables import opened
from timing_logger.results.plain import StepRange
from timing_logger.schema.record import LARGEST

NAN = math.nan


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (StepRange(40, 60), "iterations 40 to 60"),
        (StepRange(40, 40), "iteration 40"),
        (StepRange(4, 6, 2, 2), "iterations 4 to 6 of epoch 2"),
        (StepRange(4, 6, 0, 2), "iteration 4 of epoch 0 to iteration 6 of epoch 2"),
        (StepRange(4, 6, 0, 0), "iterations 4 to 6 of epoch 0"),
    ],
)
def test_a_range_of_steps_is_said_with_the_epochs_where_there_are_any(steps: StepRange, words: str) -> None:
    assert steps.in_words() == words


def test_where_iterations_do_not_restart_the_number_of_a_step_is_its_iteration() -> None:
    numbering = Numbering(np.zeros(0))
    assert not numbering.restarts
    assert numbering.iterations(np.array([3, 9])).tolist() == [3, 9]
    assert np.isnan(numbering.epochs_of(np.array([3, 9]))).all()
    assert numbering.step_range(np.array([3, 5, 9])) == StepRange(3, 9)


def test_steps_of_epochs_are_numbered_one_epoch_after_the_other() -> None:
    epoch, iteration = np.array([0.0, 0.0, 2.0, 2.0, NAN]), np.array([5.0, 7.0, 5.0, 6.0, 7.0])
    numbering, number = numbered_by_epoch(epoch, iteration, counted=True)
    assert number.tolist() == [0, 2, 3, 4, 8]
    assert numbering.counted
    assert (numbering.least, numbering.per_epoch, len(numbering.distinct)) == (5, 3, 0)
    assert numbering.iterations(number).tolist() == iteration.tolist()
    np.testing.assert_array_equal(numbering.epochs_of(number), epoch)
    assert numbering.step_range(number[:4]) == StepRange(5, 6, 0, 2)
    assert numbering.step_range(number) == StepRange(5, 7, 0, None)


@pytest.mark.parametrize(("last", "is_far"), [(LARGEST - 1, False), (LARGEST, True)])
def test_iterations_too_far_apart_to_count_all_between_are_numbered_as_they_occur(
    last: int, is_far: bool
) -> None:
    iteration = np.array([0.0, last, 3.0])
    numbering, number = numbered_by_epoch(np.zeros(3), iteration, counted=False)
    assert number.tolist() == ([0, 2, 1] if is_far else [0, last, 3])
    assert numbering.iterations(number).tolist() == [0, last, 3]
    assert not numbering.counted


def test_iterations_far_apart_are_told_apart_by_their_epochs_too() -> None:
    epoch, iteration = np.array([4.0, 4.0, 5.0, 5.0]), np.array([1.0, 2.0**52, 1.0, 2.0**52])
    numbering, number = numbered_by_epoch(epoch, iteration, counted=True)
    assert number.tolist() == [0, 1, 2, 3]
    assert numbering.counted
    assert numbering.epochs_of(number).tolist() == epoch.tolist()
    assert numbering.iterations(number).tolist() == iteration.tolist()


def steps(meaning: Meaning, of_row: list[float], iteration: list[float], restarts: list[bool]) -> Steps:
    return numbered(Epochs(np.array(of_row), np.array(restarts), meaning), np.array(iteration))


def test_rows_outside_of_any_iteration_are_of_no_step() -> None:
    found = steps(Meaning.TELL_STEPS_APART, [0.0, 1.0, 1.0], [0.0, NAN, 0.0], [True] * 3)
    assert found.number[[0, 2]].tolist() == [0.0, 1.0]
    assert np.isnan(found.number[1])
    none = steps(Meaning.TELL_STEPS_APART, [0.0], [NAN], [True])
    assert np.isnan(none.number).all()
    assert not none.numbering.restarts


def test_epochs_that_tell_no_steps_apart_are_left_out() -> None:
    found = steps(Meaning.NOTHING, [0.0, 1.0], [4.0, 5.0], [False] * 2)
    assert found.number.tolist() == [4.0, 5.0]
    assert not found.numbering.restarts


def test_who_never_restarts_was_in_the_first_pass_all_the_time_where_passes_are_counted() -> None:
    of_row, restarts = [0.0, 1.0, NAN, NAN], [True, True, True, False]
    counted = steps(Meaning.TELL_AND_ARE_COUNTED, of_row, [0.0] * 4, restarts)
    assert counted.number.tolist() == [0, 1, 2, 0]
    assert counted.numbering.counted
    recorded = steps(Meaning.TELL_STEPS_APART, of_row, [0.0] * 4, restarts)
    assert recorded.number.tolist() == [0, 1, 2, 2]
    assert not recorded.numbering.counted


def test_the_column_of_epochs_is_blank_outside_of_steps_and_only_there_where_iterations_restart() -> None:
    frame = opened(pd.DataFrame({"rank": [0] * 4}), ["rank"])
    found = steps(Meaning.TELL_STEPS_APART, [3.0, NAN, 4.0, NAN], [0.0, NAN, 0.0, 0.0], [True] * 4)
    epoch = found.columns(frame, np.array([2, 1, 0, 3]))["epoch"]
    assert [None if pd.isna(value) else value for value in epoch] == [4, None, 3, None]
    assert steps(Meaning.NOTHING, [0.0], [1.0], [False]).columns(frame, np.array([0])) == {}


def test_the_epoch_stands_after_the_iteration_if_there_is_one() -> None:
    assert with_epoch(["rank", "iteration", "why"], {"epoch"}) == ["rank", "iteration", "epoch", "why"]
    assert with_epoch(["rank", "iteration"], ["rank"]) == ["rank", "iteration"]


def test_steps_of_several_epochs_that_say_no_more_are_one_to_an_epoch() -> None:
    steps_of_epochs = Numbering(np.array([2.0, 5.0]))
    assert steps_of_epochs.epochs_of(np.array([0, 1])).tolist() == [2.0, 5.0]
    assert steps_of_epochs.iterations(np.array([0, 1])).tolist() == [0, 0]
