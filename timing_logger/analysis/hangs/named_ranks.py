"""Name ranks in sentences."""

from __future__ import annotations

from collections.abc import Iterable


def named_ranks(ranks: Iterable[int]) -> str:
    """Name ranks in words, as ``rank 3``, ``ranks 0, 1 and 3`` or ``ranks 0 to 62 and 64``."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    told = [part for run in runs for part in ([f"{run[0]} to {run[-1]}"] if len(run) > 3 else map(str, run))]
    several = len(told) > 1 or any(len(run) > 1 for run in runs)
    listed = f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else "".join(told)
    return f"rank{'s' * several} {listed}"
