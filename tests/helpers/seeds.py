"""How many random runs ``make test`` tries of those that ``make test-all`` tries."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from slow import slow

_EXAMPLES_OF_MAKE_TEST_ALL = 100


def seeds(number: int, few: int = 1) -> list[Any]:
    """Return the seeds from 0 on as parameters of a test; all but the first ``few`` are slow."""
    return [*range(few), *(slow(seed, "more random runs of the same kind") for seed in range(few, number))]


def few_examples(number: int) -> settings:
    """Try so few random examples in ``make test``, as each takes long; and elsewhere as many as usual."""
    usual = settings().max_examples
    return settings(max_examples=usual if usual >= _EXAMPLES_OF_MAKE_TEST_ALL else number)
