"""The policy that decides which iterations are recorded."""

from __future__ import annotations

from typing import Any

import pytest

from timing_logger.errors import ConfigurationError
from timing_logger.recording.sampling import StepPolicy


def test_by_default_everything_is_recorded() -> None:
    policy = StepPolicy()
    assert not policy.selective
    assert all(policy.records(i) for i in range(100))


def test_nine_hundred_steps_every_tenth_are_ninety() -> None:
    policy = StepPolicy(start_step=100, end_step=1000, record_every_n_steps=10)
    assert sum(policy.records(i) for i in range(2000)) == 90


def test_the_start_is_recorded_and_the_end_is_not() -> None:
    policy = StepPolicy(start_step=3, end_step=6)
    assert [i for i in range(10) if policy.records(i)] == [3, 4, 5]


def test_only_named_ranks_record() -> None:
    policy = StepPolicy(ranks=[0, 1, 7])
    assert [rank for rank in range(8) if policy.records_rank(rank)] == [0, 1, 7]


@pytest.mark.parametrize("iteration", ["x", 3.5, None, object()])
def test_what_is_no_iteration_is_recorded_rather_than_lost(iteration: object) -> None:
    assert StepPolicy(start_step=5).records(iteration)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start_step": -1}, "start_step must be an integer >= 0, and is -1"),
        ({"record_every_n_steps": 0}, "record_every_n_steps must be an integer >= 1, and is 0"),
        ({"record_every_n_steps": 2.5}, "record_every_n_steps must be an integer >= 1, and is 2.5"),
        ({"start_step": 10, "end_step": 10}, "end_step=10 is not above start_step=10"),
        ({"ranks": "01"}, "ranks must be a collection of rank numbers, and is '01'"),
        ({"ranks": []}, "ranks is empty: no rank would record. Name some"),
        ({"ranks": iter([0])}, "ranks must be a collection of rank numbers, and is"),
        ({"ranks": [0, -1]}, "ranks must be an integer >= 0, and is -1"),
        ({"start_step": True}, "start_step must be an integer >= 0, and is True"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message.replace("(", r"\(")):
        StepPolicy(**options)
