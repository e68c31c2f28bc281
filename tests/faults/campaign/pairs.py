"""Has two faults strike at once, in every order: each pair of the table ``pairs/faults.py``. (P19)"""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from pairs.faults import CANNOT_FOLLOW, FAULTS
from pairs.trying import PAIRS, try_pair

from campaign.trial import Trial

_SHORT_PAIRS = 24
_AT_ONCE = max(2, os.cpu_count() or 1)


def pairs(trial: Trial) -> str:
    """Try every ordered pair at random instants; in the short form, some that are drawn."""
    times = trial.times(10, 1)
    chosen = trial.chance().sample(PAIRS, _SHORT_PAIRS) if trial.short else PAIRS
    tries = [(first, second, number) for number in range(times) for first, second in chosen]
    random.Random(trial.seed).shuffle(tries)  # so that what runs at once differs
    with ThreadPoolExecutor(_AT_ONCE) as workers:
        for one, failures in zip(tries, workers.map(lambda one: _try(trial, *one), tries), strict=True):
            trial.count(1, [f"{' -> '.join(one[:2])}, {one[2]}: {'; '.join(failures)}"] if failures else None)
    excluded = "; ".join(f"after {name} none can: {why}" for name, why in CANNOT_FOLLOW.items())
    return f"{len(chosen)} ordered pairs of {len(FAULTS)} faults, {times} times each; {excluded}"


def _try(trial: Trial, first: str, second: str, number: int) -> list[str]:
    with TemporaryDirectory(dir=trial.folder, ignore_cleanup_errors=True) as folder:
        return [fault[:1000] for fault in try_pair(Path(folder), first, second, seed_of(trial, number))]


def seed_of(trial: Trial, number: int) -> str:
    """Return the seed of a try, for ``python -m pairs.trying``."""
    return f"{trial.seed}/{number}"
