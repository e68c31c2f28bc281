"""Says which tests take long: ``make test`` leaves them out, ``make test-all`` runs them.

A test or file is marked with ``pytest.mark.slow("why make test can do without it")``. ``conftest.py`` refuses
a mark without a reason.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

_EXAMPLES_OF_HYPOTHESIS = 100


def slow(value: Any, reason: str, **options: Any) -> Any:
    """The parameter ``value`` of a test or fixture, which makes each test that uses it a slow one.

    ``options`` are those of ``pytest.param``.
    """
    return pytest.param(value, marks=pytest.mark.slow(reason), **options)


def slow_and_serial(value: Any, reason: str) -> Any:
    """The parameter ``value`` of a test or fixture, beside which nothing else may run."""
    return pytest.param(value, marks=[pytest.mark.slow(reason), pytest.mark.serial])


def examples(number: int, few: int | None = None) -> int:
    """How many random examples to try where ``make test-all`` tries ``number``.

    Where fewer are tried, these are ``few``, or by default a like part of them as of those of other tests.
    """
    usual = settings().max_examples
    if few is not None and usual < _EXAMPLES_OF_HYPOTHESIS:
        return few
    return max(1, number * usual // _EXAMPLES_OF_HYPOTHESIS)
