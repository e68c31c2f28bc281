"""Says which tests take long: ``make test`` leaves them out, ``make test-all`` runs them too."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

_EXAMPLES_OF_HYPOTHESIS = 100


def slow(value: Any) -> Any:
    """The parameter ``value`` of a test or fixture, which makes each test that uses it a slow one."""
    return pytest.param(value, marks=pytest.mark.slow)


def slow_and_serial(value: Any) -> Any:
    """The parameter ``value`` of a test or fixture, beside which nothing else may run."""
    return pytest.param(value, marks=[pytest.mark.slow, pytest.mark.serial])


def examples(number: int) -> int:
    """How many random examples to try where ``make test-all`` tries ``number``."""
    return max(1, number * settings().max_examples // _EXAMPLES_OF_HYPOTHESIS)
