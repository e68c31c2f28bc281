"""Lists the scenarios that are tried, and how often each is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from verdict_accuracy.kinds import LARGE, kinds
from verdict_accuracy.noise import NOISES
from verdict_accuracy.simulation import Scenario, is_job

SLOWDOWNS = ("slow 10%", "slow 20%", "slow 50%", "slow 100%")
PARTLY = ("window 20%", "window 50%", "sporadic pauses")
TAME = ("steady", "pauses", "lengths")

MORE_HEALTHY_RUNS = 3
"""How many times as often healthy runs below 64 ranks are tried: 30 runs cannot show a rate of 2%.

Of jobs whose steps differ, only those on busy machines are, as there false alarms are most likely.
"""


def scenarios(*, quick: bool = False) -> list[Scenario]:
    """Return all lines of the tables; ``quick`` leaves out the largest runs, and most classes of noise."""
    parts = (_data_parallel(), _seldom_faults(), _logged_in_part(), _other_architectures(), kinds())
    found = list(dict.fromkeys(chain(*parts)))
    return [one for one in found if not quick or _is_quick(one)]


def _is_quick(one: Scenario) -> bool:
    if is_job(one):
        return one.ranks < LARGE
    is_small = one.ranks <= (64 if one.architecture == "data-parallel" else 24)
    return is_small and (one.noise in ("steady", "pauses") or one.fault == "healthy")


def repetitions(scenario: Scenario, seeds: int) -> int:
    """Return how many runs of ``scenario`` are made if a usual one has ``seeds``."""
    if scenario.ranks >= LARGE:
        return max(1, seeds // 10)
    is_tried_more = scenario.noise == "busy" if is_job(scenario) else scenario.ranks < 64
    return seeds * MORE_HEALTHY_RUNS if scenario.fault == "healthy" and is_tried_more else seeds


def _data_parallel() -> Iterator[Scenario]:
    for noise in NOISES:
        for ranks in (2, 4, 8, 64):
            yield from _all("data-parallel", "all rows", (noise,), ("healthy", *SLOWDOWNS, *PARTLY), (ranks,))
    yield from _all(
        "data-parallel", "all rows", TAME, ("healthy", "slow 20%", "slow 50%", "window 50%"), (256,)
    )


def _seldom_faults() -> Iterator[Scenario]:
    noises = ("steady", "correlated", "pauses")
    yield from _all("data-parallel", "all rows", noises, ("sporadic pauses",), (8, 64), steps=60)
    yield from _all("data-parallel", "all rows", noises, ("healthy",), (8, 64), steps=60)
    yield from _all("data-parallel", "all rows", noises, ("two: 20% and 10%",), (8, 64))
    yield from _all("data-parallel", "all rows", (*noises, "unequal"), ("half a host 15%",), (64,))
    yield from _all("data-parallel", "all rows", noises, ("all ranks 50%",), (8, 64))
    yield from _all("data-parallel", "all rows", ("steady",), ("slow link", "slow link later"), (8, 64))


def _logged_in_part() -> Iterator[Scenario]:
    faults = ("healthy", "slow 20%", "slow 50%", "window 50%", "sporadic pauses", "slow link later")
    noises = ("steady", "pauses", "wandering")
    yield from _all("data-parallel", "collectives only", noises, faults, (4, 64))
    for logged in ("all rows", "communication only"):
        yield from _all("halo", logged, ("steady", "pauses"), (*faults, "slow link"), (4, 8))
        yield from _all("halo", logged, ("steady", "pauses"), ("healthy", "slow 20%"), (64,))


def _other_architectures() -> Iterator[Scenario]:
    noises, faults = ("steady", "correlated", "pauses"), ("healthy", "slow 20%", "slow 50%", "window 50%")
    for logged in ("all rows", "collectives only"):
        yield from _all("sharded", logged, noises, faults, (8,))
        yield from _all("sharded", logged, ("steady", "pauses"), faults, (64,))
        yield from _all("sharded", logged, ("steady",), ("slow link later",), (8,))
    for logged in ("all rows", "no messages", "collectives only"):
        yield from _all("pipeline", logged, noises, (*faults, "last stage 40%"), (8, 16))
        yield from _all("pipeline", logged, ("steady",), ("healthy", "slow 20%", "last stage 40%"), (64,))
    yield from _all("tensor-parallel", "all rows", noises, faults, (8, 24))
    for logged in ("no team collectives", "outer collectives only"):
        yield from _all("tensor-parallel", logged, noises, ("healthy", "slow 20%", "slow 50%"), (24,))


def _all(
    architecture: str, logged: str, noises: Iterable[str], faults: Iterable[str], ranks: Iterable[int],
    steps: int = 200,
) -> Iterator[Scenario]:  # fmt: skip
    faults, ranks = tuple(faults), tuple(ranks)
    for noise in noises:
        for fault in faults:
            for n_ranks in ranks:
                yield Scenario(architecture, logged, noise, fault, n_ranks, steps)
