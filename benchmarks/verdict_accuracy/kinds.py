"""Lists the scenarios of jobs whose steps differ."""

from __future__ import annotations

from collections.abc import Iterator

from verdict_accuracy.simulation import Scenario

LARGE = 1024
"""From as many ranks on, a tenth of the usual number of runs are made."""


def kinds() -> Iterator[Scenario]:
    """Yield all lines of the tables of kinds of jobs."""
    yield from _faults_in_time()
    yield from _rare_and_huge()
    yield from _busy_machines()
    yield from _many_ranks()
    yield from _other_training()


def _faults_in_time() -> Iterator[Scenario]:
    yield from _lines("training", ("healthy", "20% in 20 steps", "20 ms late", "moves", "half of all"))
    yield from _lines("training", ("ramp to 30%",), steps=500)
    yield from _lines("training", ("every 10th step", "sawtooth", "3 slow 30%"), steps=300)
    yield from _lines("training", ("all ranks 50%", "all ramp", "network later", "link later"))
    yield from _lines("training", ("healthy", "20 ms late"), ranks=2)
    yield from _lines("partly timed", ("healthy", "20 ms late", "slow 30%"), ranks=2)
    yield from _lines("partly timed", ("healthy", "20 ms late"))
    yield from _lines("training", ("healthy", "slow 30%"), noise="uneven")
    yield from _lines("training", ("slow 30%",), steps=10)
    yield from _lines("training", ("healthy",), steps=15)


def _rare_and_huge() -> Iterator[Scenario]:
    yield from _lines("training", ("saves",), steps=300)
    yield from _lines("training", ("saves",), logged="no saves", steps=300)
    yield from _lines("evaluation", ("healthy", "slow 30%"), steps=300)
    yield from _lines("training", ("healthy", "slow 20%"), noise="warm-up")
    yield from _lines("training", ("compiles",), steps=100)


def _busy_machines() -> Iterator[Scenario]:
    for ranks in (4, 8, 16):
        yield from _lines("training", ("healthy", "slow 50%"), noise="busy", ranks=ranks)
        yield from _lines("short steps", ("healthy",), noise="busy", ranks=ranks)
    yield from _lines("training", ("healthy", "slow 50%"), logged="collectives only", noise="busy")


def _many_ranks() -> Iterator[Scenario]:
    yield from _lines("training", ("host", "host stalls"), ranks=32)
    yield from _lines("training", ("host",), ranks=64, steps=60)
    yield from _lines("training", ("healthy", "slow 30%"), ranks=LARGE, steps=20)


def _other_training() -> Iterator[Scenario]:
    faults = ("healthy", "slow 30%", "now and then", "recorded steps")
    yield from _lines("training", faults, logged="every 10th step", steps=1000)
    yield from _lines("accumulation", ("healthy", "slow 20%"))
    yield from _lines("local SGD", ("healthy", "slow 20%"), steps=400)
    yield from _lines("ranks join", ("healthy", "slow 30%", "30% in 2nd half"))
    yield from _lines("ranks leave", ("healthy", "slow 30%"))
    yield from _lines("devices", ("healthy", "slow 30%", "20% in 20 steps"))
    yield from _lines("devices", ("healthy", "slow 30%"), ranks=2)


def _lines(
    job: str,
    faults: tuple[str, ...],
    *,
    logged: str = "all rows",
    noise: str = "steady",
    ranks: int = 8,
    steps: int = 200,
) -> Iterator[Scenario]:
    for fault in faults:
        yield Scenario(job, logged, noise, fault, ranks, steps)
