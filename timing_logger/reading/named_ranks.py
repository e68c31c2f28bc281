"""Name ranks in sentences and tables."""

from __future__ import annotations

from collections.abc import Iterable

from timing_logger.reading.selection import successive

MOST_NAMED = 8
"""The most ranks, or ranges of ranks, that are named; the others are only counted."""


def named_ranks(ranks: Iterable[int]) -> str:
    """Name ranks in words, as ``rank 3``, ``ranks 0, 1 and 3`` or ``ranks 0 to 62 and 64``."""
    chosen = set(ranks)
    told = _told(chosen)
    listed = f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else "".join(told)
    return f"rank{'s' * (len(chosen) > 1)} {listed}"


def listed_ranks(ranks: Iterable[int]) -> str:
    """List ranks without a word between, as ``4 to 7`` or ``0, 4, 8``; of many the rest are counted."""
    return ", ".join(_told(set(ranks)))


def capital(sentence: str) -> str:
    """Return a sentence with its first letter in upper case."""
    return sentence[:1].upper() + sentence[1:]


def _told(ranks: set[int]) -> list[str]:
    """Return each rank as text, more than 3 successive ones as a range; last, how many are left out."""
    told: list[str] = []
    n_named = 0
    for run in successive(ranks):
        for part in [run] if len(run) > 3 else [[rank] for rank in run]:
            if len(told) == MOST_NAMED:
                return [*told, f"{len(ranks) - n_named} more"]
            told.append(f"{part[0]} to {part[-1]}" if len(part) > 1 else str(part[0]))
            n_named += len(part)
    return told
