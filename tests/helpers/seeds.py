"""Seeds of random runs: ``make test`` tries a few of those that ``make test-all`` tries."""

from __future__ import annotations

from typing import Any

from slow import slow


def seeds(number: int, few: int = 1) -> list[Any]:
    """Return the seeds from 0 on as parameters of a test; all but the first ``few`` are slow."""
    return [*range(few), *(slow(seed, "more random runs of the same kind") for seed in range(few, number))]
