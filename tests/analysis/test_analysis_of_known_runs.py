"""What analyses say of simulated runs stays as it is, until somebody means to change it."""

from __future__ import annotations

from typing import Any

import pytest
from known_answers import kept, kept_of, scenarios

BY_DAY = (
    "training / collectives only / busy / slow 50% / 8",
    "rounds / no iterations / steady / now and then / 8",
    "ranks join / all rows / mixed / slow 30% / 8 / 100 steps",
)
"""The runs that ``make test`` asks: soon answered, and as different as any three."""


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, Any]]:
    return kept()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in BY_DAY else pytest.mark.slow("runs of three kinds are quick"))
        for name in scenarios()
    ],
)
def test_the_answers_are_those_that_are_kept(name: str, answers: dict[str, dict[str, Any]]) -> None:
    now, before = kept_of(name), answers[name]
    changed = [question for question in now if now[question] != before.get(question)]
    assert {question: now[question] for question in changed} == {
        question: before.get(question) for question in changed
    }, f"{changed}: if it is meant, write them again: python tests/helpers/known_answers.py"


def test_of_each_run_the_answers_are_kept(answers: dict[str, dict[str, Any]]) -> None:
    assert list(answers) == list(scenarios())
